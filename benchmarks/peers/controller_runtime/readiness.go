package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// onStandbyToo is a runnable that does not wait for the lease.
type onStandbyToo func(context.Context) error

func (f onStandbyToo) Start(ctx context.Context) error { return f(ctx) }

func (onStandbyToo) NeedLeaderElection() bool { return false }

// readyOnceSynced makes /readyz answer 200 once the cache holds the kinds, and not before.
func readyOnceSynced(mgr ctrl.Manager, kinds []client.Object) error {
	var synced atomic.Bool
	wait := onStandbyToo(func(ctx context.Context) error {
		for _, kind := range kinds {
			// Returns once the kind's first list is there; shared with the controllers that watch the same.
			if _, err := mgr.GetCache().GetInformer(ctx, kind); err != nil {
				return err
			}
		}
		synced.Store(true)
		return nil
	})
	if err := mgr.Add(wait); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("caches", func(*http.Request) error {
		if !synced.Load() {
			return errors.New("the caches are not synced")
		}
		return nil
	})
}
