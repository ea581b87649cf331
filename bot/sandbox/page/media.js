// Pictures and files inside messages: a single picture at a good size, several as a mosaic,
// anything else as a link. Small pictures are shown enlarged and smooth.

import { h, icon } from "./dom.js";
import { openLightbox } from "./lightbox.js";

const SMALLEST = 384;
const LARGEST = 480;
const IS_SPOILER = 1 << 3; // a flag of files

/**
 * The address to load `url` from: `attachment://name` through the message's own attachments, and
 * the sandbox's files from this page's origin, so that a forwarded port works too.
 */
export function resolveUrl(url, message) {
  const name = /^attachment:\/\/(.+)$/.exec(url)?.[1];
  const address = name ? (message.attachments?.find((file) => file.filename === name)?.url ?? "") : url;
  if (address === "") return "";
  const parsed = new URL(address, location.href);
  return /^\/(ephemeral-)?attachments\//.test(parsed.pathname) ? parsed.pathname + parsed.search : parsed.href;
}

/** A gallery of {url, alt, width, height, spoiler}. */
export function renderGallery(pictures) {
  const shown = pictures.filter((picture) => picture.url !== "");
  const kind = shown.length === 1 ? "single" : `mosaic of-${Math.min(shown.length, 10)}`;
  return h(
    "div",
    { class: `gallery ${kind}`, style: { "--ratio": commonRatio(shown) } },
    shown.map((picture) => tile(picture, shown)),
  );
}

// Pictures of one shape are shown whole; pictures of different shapes are cut to squares.
function commonRatio(pictures) {
  const ratios = new Set(
    pictures.map(({ width, height }) => (width && height ? `${width} / ${height}` : "1")),
  );
  return ratios.size === 1 ? [...ratios][0] : "1";
}

function tile(picture, all) {
  if (!isLocal(picture.url)) return outsideLink(picture);
  const width = Math.min(LARGEST, Math.max(SMALLEST, picture.width ?? SMALLEST));
  const pictures = all.filter((one) => isLocal(one.url));
  const image = h("img", {
    src: picture.url,
    alt: picture.alt,
    width: picture.width,
    height: picture.height,
  });
  const button = h(
    "button",
    {
      type: "button",
      class: picture.spoiler ? "tile hidden-picture" : "tile",
      "aria-label": `Enlarge: ${picture.alt || "picture"}`,
      style: { "--width": `${width}px` },
    },
    image,
  );
  button.addEventListener("click", () => {
    if (button.classList.contains("hidden-picture")) button.classList.remove("hidden-picture");
    else openLightbox(pictures, pictures.indexOf(picture));
  });
  return button;
}

// Nothing is loaded from outside this machine; the person may follow the link.
function outsideLink({ url, alt }) {
  return h(
    "a",
    { class: "file", href: safeHref(url), target: "_blank", rel: "noopener noreferrer" },
    icon("file"),
    h("span", { text: alt || url }),
  );
}

function isLocal(url) {
  return new URL(url, location.href).origin === location.origin;
}

/** The address if it is one a link may lead to, else null. */
export function safeHref(url) {
  const { protocol, href } = new URL(url, location.href);
  return protocol === "http:" || protocol === "https:" ? href : null;
}

/** Attachments of a classic message: pictures in a gallery, other files as links. */
export function renderAttachments(message) {
  const files = message.attachments ?? [];
  const pictures = files.filter((file) => file.content_type?.startsWith("image/") || file.width);
  const others = files.filter((file) => !pictures.includes(file));
  return [
    pictures.length > 0
      ? renderGallery(
          pictures.map((file) => ({
            url: resolveUrl(file.url, message),
            alt: file.description ?? file.filename,
            width: file.width,
            height: file.height,
            spoiler: ((file.flags ?? 0) & IS_SPOILER) !== 0,
          })),
        )
      : null,
    ...others.map((file) => renderFile(file.filename, file.size, resolveUrl(file.url, message))),
  ];
}

export function renderFile(name, size, url) {
  return h(
    "a",
    { class: "file", href: safeHref(url), target: "_blank", rel: "noopener noreferrer", download: name },
    icon("file"),
    h("span", { text: name }),
    size ? h("span", { class: "dim", text: fileSize(size) }) : null,
  );
}

/** A number of bytes in words: "812 bytes", "10 MiB", "11.5 MiB". */
export function fileSize(bytes) {
  const [unit, name] = bytes < 1024 ? [1, "bytes"] : bytes < 1024 ** 2 ? [1024, "KiB"] : [1024 ** 2, "MiB"];
  return `${Number((bytes / unit).toFixed(1))} ${name}`;
}
