// The acting member: a radio group of the server's members in the page's top bar.

import { avatar } from "./avatar.js";
import { byId, h } from "./dom.js";

/** `act(id)` is called when the person picks another member; Alt+1 … Alt+9 pick too. */
export function createPeople(model, act) {
  const group = byId("people");

  model.on("state", () => {
    const had = group.contains(document.activeElement);
    group.replaceChildren(...humans().map(choice));
    if (had) group.querySelector(":checked")?.focus();
  });
  document.addEventListener("keydown", (event) => {
    const member =
      event.altKey && /^Digit[1-9]$/.test(event.code) ? humans()[Number(event.code.slice(5)) - 1] : null;
    if (!member) return;
    event.preventDefault();
    act(member.id);
  });

  function humans() {
    return model.members.filter((member) => !member.bot);
  }

  function choice(member, index) {
    const radio = h("input", {
      type: "radio",
      name: "member",
      value: member.id,
      "aria-label": `Act as ${member.name}`,
      on: { change: () => act(member.id) },
    });
    radio.checked = member.id === model.me.id;
    return h(
      "label",
      { class: "person", title: `${member.name} (Alt+${index + 1})` },
      radio,
      avatar(member.id, member.name),
      h("span", { class: "person-name", text: member.name }),
    );
  }
}
