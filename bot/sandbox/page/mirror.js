// Colours the command box: the same text drawn under the transparent textarea, with the command's
// and the options' names set off and values that cannot be sent underlined. It also gives the box
// its height, since both share one grid cell.

import { h } from "./dom.js";

export function paint(mirror, text, line, problems) {
  // A line break at the end needs a character after it to take space.
  mirror.replaceChildren(...(line.kind === "command" ? pieces(text, line, problems) : [text]), "\u200b");
}

function pieces(text, line, problems) {
  const drawn = [h("span", { class: "mirror-command", text: text.slice(0, line.nameEnd) })];
  let at = line.nameEnd;
  for (const { option, raw, start, valueStart, end, named } of line.segments) {
    if (named) {
      drawn.push(
        text.slice(at, start),
        h("span", { class: "mirror-option", text: text.slice(start, valueStart) }),
      );
      at = valueStart;
    }
    const bad = raw !== "" && problems.some((problem) => problem.option === option && !problem.missing);
    drawn.push(bad ? h("span", { class: "mirror-bad", text: text.slice(at, end) }) : text.slice(at, end));
    at = end;
  }
  return [...drawn, text.slice(at)];
}
