// What a person has opened stays open, and whether the page is current is said.
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
  !(name === "open" && node.tagName === "DETAILS");

const tell = (text) => {
  const badge = document.getElementById("current");
  if (badge && badge.textContent !== text) badge.textContent = text;
};
document.addEventListener("htmx:sseMessage", () => tell("live"));
document.addEventListener("htmx:sseError", () => tell("reconnecting"));
