// The interactions that this tab began. Other tabs of the same member hear of them too, and only this one opens
// their forms.

/** `open(form)` shows a form, as the event MODAL carries it. */
export function createOwn(open) {
  const begun = new Set();
  const early = new Map(); // forms by interaction, which came before their request returned
  let underWay = 0;

  return {
    /** Wait for a request that begins an interaction, and return the interaction's id. */
    async begin(request) {
      underWay += 1;
      try {
        const { interaction_id: interaction } = await request;
        begun.add(interaction);
        if (early.has(interaction)) setTimeout(open, 0, early.get(interaction));
        return interaction;
      } finally {
        underWay -= 1;
        if (underWay === 0) early.clear();
      }
    },

    /** A form has come. */
    form(data) {
      if (begun.has(data.interaction_id)) open(data);
      else if (underWay > 0) early.set(data.interaction_id, data);
    },
  };
}
