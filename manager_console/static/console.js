// Keeps the live part of the page current; what a person has opened stays open.
const region = document.querySelector("[data-live]");
const badge = document.getElementById("current");
const pause = 1500;
const callbacks = {
  beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
};

const refresh = async () => {
  const answer = await fetch(region.dataset.live);
  if (!answer.ok) return "reconnecting";
  Idiomorph.morph(region, await answer.text(), { morphStyle: "innerHTML", callbacks });
  return "live";
};

let timer;
// A page in the background asks for nothing.
const follow = async () => {
  clearTimeout(timer);
  if (document.hidden) return;
  const state = await refresh().catch(() => "reconnecting");
  if (badge.textContent !== state) badge.textContent = state;
  clearTimeout(timer);
  timer = setTimeout(follow, pause);
};
document.addEventListener("visibilitychange", follow);
// The first paint comes before the first refresh.
requestAnimationFrame(() => setTimeout(follow));
