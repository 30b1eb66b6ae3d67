// The part of the page that is kept current; what a person has opened stays open.
const region = document.querySelector("[data-live]");
const badge = document.getElementById("current");
const tell = (text) => {
  if (badge.textContent !== text) badge.textContent = text;
};
const callbacks = {
  beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
};

let stream;
const listen = () => {
  const opened = (stream = new EventSource(region.dataset.live));
  opened.onmessage = (event) => {
    Idiomorph.morph(region, event.data, { morphStyle: "innerHTML", callbacks });
    tell("live");
  };
  opened.onerror = () => {
    tell("reconnecting");
    // After a refusal the browser does not try again by itself.
    if (opened.readyState === EventSource.CLOSED) setTimeout(() => opened === stream && listen(), 2000);
  };
};
// A browser has few connections to one host: pages that nobody sees keep none.
const follow = () => {
  stream?.close();
  stream = undefined;
  if (!document.hidden) listen();
};
document.addEventListener("visibilitychange", follow);
// What the page shows already is painted first.
requestAnimationFrame(() => setTimeout(follow));
