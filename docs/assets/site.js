// The theme wraps wide tables into regions that scroll: a keyboard must reach these as well.
window.addEventListener("load", () => {
  for (const region of document.querySelectorAll(".md-typeset__scrollwrap")) region.tabIndex = 0;
});
