// Classic embeds: a card with a coloured edge, title, text, fields and a picture.

import { h } from "./dom.js";
import { renderMarkdown } from "./markdown_view.js";
import { renderGallery, resolveUrl, safeHref } from "./media.js";

export function renderEmbeds(message, names) {
  return (message.embeds ?? []).map((embed) => renderEmbed(embed, message, names));
}

function renderEmbed(embed, message, names) {
  const edge =
    embed.color === undefined || embed.color === null
      ? {}
      : { "--accent-edge": `#${embed.color.toString(16).padStart(6, "0")}` };
  const markdown = (source, kind) =>
    source ? h("div", { class: kind }, renderMarkdown(source, names)) : null;
  const title =
    embed.title && embed.url
      ? h("a", {
          class: "embed-title",
          href: safeHref(embed.url),
          target: "_blank",
          rel: "noopener noreferrer",
          text: embed.title,
        })
      : markdown(embed.title, "embed-title");
  return h(
    "section",
    { class: "container accented embed", style: edge },
    embed.author ? h("p", { class: "embed-author", text: embed.author.name }) : null,
    title,
    markdown(embed.description, "text"),
    embed.fields?.length
      ? h(
          "dl",
          { class: "fields" },
          embed.fields.map((field) =>
            h(
              "div",
              { class: field.inline ? "field inline" : "field" },
              h("dt", {}, renderMarkdown(field.name, names)),
              h("dd", {}, renderMarkdown(field.value, names)),
            ),
          ),
        )
      : null,
    embed.image
      ? renderGallery([
          {
            url: resolveUrl(embed.image.url, message),
            alt: embed.title ?? "",
            width: embed.image.width,
            height: embed.image.height,
            spoiler: false,
          },
        ])
      : null,
    embed.footer ? h("p", { class: "subtext", text: embed.footer.text }) : null,
  );
}
