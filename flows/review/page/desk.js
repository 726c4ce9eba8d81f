// What the page and the server say to each other. An answer is kept by the browser until the server
// has it on disk; its id makes sure that it counts once, however often it is sent.
let unsent = "unsent";
const load = () => JSON.parse(localStorage.getItem(unsent) ?? "[]");
const save = (answers) => localStorage.setItem(unsent, JSON.stringify(answers));
// By its id: another tab may have sent it, too, and what is first now is another one.
const drop = (answer) => save(load().filter((one) => one.id !== answer.id));

export const newId = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
};

const ENDED = "This address has ended. Open the one that was printed last; what is not saved yet goes there.";

const call = async (path, body) => {
  const options = body && { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const reply = await fetch(`api/${path}`, options);
  const found = await reply.json().catch(() => ({ error: `${reply.status} ${reply.statusText}`.trim() }));
  if (reply.ok) return found;
  const error = new Error(reply.status === 403 ? ENDED : found.error ?? reply.statusText);
  error.refused = reply.status === 422;
  error.ended = reply.status === 403;
  throw error;
};

export class Desk {
  constructor(file, onState, onTrouble) {
    unsent = `unsent ${file}`;  // a page opened later, by another token, sends what this one could not
    this.onState = onState;
    this.onTrouble = onTrouble;
    this.tab = newId();  // what a browser keeps of a tab its duplicate has, too
    this.sending = Promise.resolve();
  }

  /** The next questions but those of `known` rows. */
  async next(n, known, filters) {
    const query = new URLSearchParams({ tab: this.tab, n, known: known.join(" "), ...filters });
    return (await call(`next?${query}`)).cards;
  }

  async state(reviewer) {
    this.onState(await call(`state?${new URLSearchParams({ reviewer })}`));
  }

  /** The columns that rows are shown by, and what there is to say of the table that has them. */
  async source() {
    return call("source");
  }

  /** One question again. */
  async row(row) {
    return (await call(`row/${row}`)).cards;
  }

  /** What there is to see of a row. */
  async content(row) {
    return call(`content/${row}`);
  }

  /** Keep an answer; nobody waits for it. */
  answer(given) {
    save([...load(), given]);
    this.flush();
  }

  /** Send what is not sent, in order; again and again while the server is away. */
  flush() {
    this.sending = this.sending.then(() => this.#send());
    return this.sending;
  }

  async #send() {
    let waiting;
    while ((waiting = load()).length) {
      try {
        this.onState(await call("answer", waiting[0]));
        drop(waiting[0]);
        this.onTrouble("");
      } catch (error) {
        if (error.refused) {
          drop(waiting[0]);
          this.onTrouble(error.message);
          continue;
        }
        if (error.ended) {
          this.onTrouble(error.message);
          return;
        }
        this.onTrouble(`Not saved yet (${error.message}); it is tried again. Keep this page open.`);
        await new Promise((done) => setTimeout(done, 1000));
      }
    }
  }

  /** Give back what this tab has shown, as it closes. */
  leave() {
    navigator.sendBeacon(`api/leave?${new URLSearchParams({ tab: this.tab })}`);
  }

  /** Take an answer back; its question again. */
  async undo(id, reviewer) {
    await this.flush();
    const found = await call("undo", { id, reviewer });
    this.onState(found);
    this.onTrouble("");
    return found.cards;
  }
}
