// Shows what changes while one looks. Every page stands without it.
"use strict";

(() => {
  const list = document.getElementById("judgings");
  const asked = document.getElementById("tasks");
  const news = document.getElementById("news");
  const state = document.getElementById("judgings-state");
  const isBoard = location.pathname === "/" || location.pathname.startsWith("/challenges/");
  if (!list && !isBoard) return;

  // Texts become text nodes, never markup.
  const make = (name, className, ...children) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    element.append(...children);
    return element;
  };
  const link = (to, text) => {
    const element = make("a", "", text);
    element.href = to;
    return element;
  };
  const points = (score) => (score === null ? "–" : score.toFixed(1));

  const entry = (one) => {
    const how = make("span", "how");
    if (one.outcome) {
      how.append(make("span", `outcome ${one.outcome}`, one.outcome), " ");
      const score = one.score === null ? "no score" : points(one.score);
      if (one.verdict) how.append(link(`/verdicts/${encodeURIComponent(one.verdict)}`, score));
    } else {
      how.append(one.phase);
      if (one.of !== null) {
        const progress = make("progress", "");
        progress.max = one.of;
        progress.value = one.done;
        progress.setAttribute("aria-label", one.name);
        how.append(" ", progress, ` ${one.done} of ${one.of}`);
      }
    }
    const who = make("span", "who", make("strong", "", one.name), " ", make("span", "sub", one.challenge));
    return make("li", "", who, " ", how);
  };

  const judging = (one) => {
    const heading = make("h2", "", one.phase);
    if (one.of !== null) heading.append(" ", make("span", "faint", `${one.done} of ${one.of}`));
    return make("section", "card judging", heading, make("ul", "", ...one.submissions.map(entry)));
  };

  const showJudgings = (event) => {
    const judgings = JSON.parse(event.data);
    const nothing = make("p", "", "Nothing is being judged into this store.");
    list.replaceChildren(...(judgings.length ? judgings.map(judging) : [nothing]));
  };

  const task = (one) => {
    const item = make("li", "", make("code", "", one.path), `: ${one.state}`);
    for (const [id, to] of one.verdicts) item.append(" ", link(to, id));
    if (one.said) item.append(" ", make("span", "said", one.said));
    return item;
  };

  // What says that nothing was asked for yet stands until something is.
  const showTasks = (event) => {
    const tasks = JSON.parse(event.data);
    if (tasks.length) asked.replaceChildren(make("ul", "", ...tasks.map(task)));
  };

  let version = null;
  const showNews = (event) => {
    const board = JSON.parse(event.data);
    // The first tells where the page stands.
    if (version !== null && version !== board.version && board.last) {
      const { name, challenge, outcome, score } = board.last;
      const said = [make("strong", "", name), ` on ${challenge}: ${outcome}, ${points(score)}. `];
      news.replaceChildren("New: ", ...said, link(board.last.link, "Open"));
      if (isBoard) news.append(" · ", link("", "Show the board as it is now"));
    }
    version = board.version;
  };

  // A browser has few connections to a server: a page that nobody sees takes none.
  let events = null;
  const listen = () => {
    if (document.hidden) {
      events?.close();
      events = null;
    } else if (!events) {
      events = new EventSource("/judgings/events");
      events.addEventListener("board", showNews);
      if (!list) return;
      events.addEventListener("judgings", showJudgings);
      if (asked) events.addEventListener("tasks", showTasks);
      events.addEventListener("open", () => (state.textContent = "As it goes."));
      events.addEventListener("error", () => (state.textContent = "The server does not answer; trying again."));
    }
  };
  document.addEventListener("visibilitychange", listen);
  listen();
})();
