// A picture enlarged over the page, with its description; keys show its neighbours.

import { h, iconButton } from "./dom.js";

/** Show `pictures` ({url, alt}) from `index` on; focus goes back to where it was on closing. */
export function openLightbox(pictures, index) {
  let at = index;
  const image = h("img", { alt: "" });
  const caption = h("figcaption");
  const link = h("a", { target: "_blank", rel: "noopener", text: "Open the file" });
  const count = h("span", { class: "count" });
  const dialog = h(
    "dialog",
    { class: "lightbox", "aria-label": "Enlarged picture" },
    h(
      "div",
      { class: "lightbox-bar" },
      count,
      link,
      iconButton("close", "Close", () => dialog.close()),
    ),
    h("figure", {}, image, caption),
  );

  function show(next) {
    at = (next + pictures.length) % pictures.length;
    const { url, alt } = pictures[at];
    image.src = url;
    image.alt = alt;
    caption.textContent = alt;
    link.href = url;
    count.textContent = pictures.length > 1 ? `${at + 1} of ${pictures.length}` : "";
  }

  if (pictures.length > 1) {
    dialog.append(
      iconButton("left", "Previous picture", () => show(at - 1), { class: "icon-button previous" }),
      iconButton("right", "Next picture", () => show(at + 1), { class: "icon-button next" }),
    );
    dialog.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft") show(at - 1);
      if (event.key === "ArrowRight") show(at + 1);
    });
  }
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.tagName === "FIGURE") dialog.close();
  });
  dialog.addEventListener("close", () => dialog.remove());
  show(index);
  document.body.append(dialog);
  dialog.showModal();
}
