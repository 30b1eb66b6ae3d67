"""What can be set for several operators."""

from __future__ import annotations

from manager.setting import Setting

__all__ = ["PROXY_CREDENTIALS"]


def _parse_credentials(text: str) -> bool:
    choices = {"drop": False, "keep": True}
    if text not in choices:
        raise ValueError("drop or keep is expected")
    return choices[text]


PROXY_CREDENTIALS = Setting(
    "proxy-credentials",
    _parse_credentials,
    default="drop",
    placeholder="drop|keep",
    description="whether containers that operators make get the user and the password in the URL of the"
    " manager's proxy: everyone sees them who may read a Deployment of the namespace",
)
