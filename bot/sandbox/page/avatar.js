// Avatars computed from the name, so that no picture is fetched: a colour pair
// that depends on the person only, with the first letter of the name.

import { h } from "./dom.js";

const PAIRS = [
  ["#f2a65a", "#c2513f"],
  ["#7fd1c1", "#2f7f86"],
  ["#c9a2f2", "#7a58c0"],
  ["#f2d06b", "#b98a1d"],
  ["#f29cb2", "#b8476f"],
  ["#9ed46f", "#4f8f3a"],
  ["#8fb8f5", "#4069b8"],
];

export function avatar(id, name, { bot = false, small = false } = {}) {
  const [light, deep] = bot ? ["#e9b872", "#3a2f22"] : PAIRS[hash(`${id}${name}`) % PAIRS.length];
  const kind = ["avatar", bot ? "of-bot" : "", small ? "small" : ""].filter(Boolean).join(" ");
  const letter = [...name][0]?.toUpperCase() ?? "?";
  return h(
    "span",
    { class: kind, "aria-hidden": "true", style: { "--light": light, "--deep": deep } },
    letter,
  );
}

function hash(text) {
  let value = 7;
  for (const character of text) value = (value * 31 + character.codePointAt(0)) >>> 0;
  return value;
}
