// Small things about the document that the other files share.

const by = (id) => document.getElementById(id);

/** Only what changed touches the document: a text that is set again is a repaint, and an announcement. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

function make(tag, kind, text) {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  if (text !== undefined) node.textContent = text;
  return node;
}

function fromTemplate(id) {
  return by(id).content.firstElementChild.cloneNode(true);
}

/** `nodes` become the children of `parent` behind `skipped` others. What is in its place is left alone, since a node
 *  that is moved loses the focus; so what is to go goes first. */
function arrange(parent, nodes, skipped = 0) {
  const wanted = new Set(nodes);
  for (const child of [...parent.children].slice(skipped)) if (!wanted.has(child)) child.remove();
  let next = parent.children[skipped] ?? null;
  for (const node of nodes) {
    if (node === next) next = next.nextElementSibling;
    else parent.insertBefore(node, next);
  }
}

/** The same supervisor has the same colour everywhere; history knows it by the random part of its id. */
function hue(id) {
  const random = String(id).split(":").pop();
  if (!hues.has(random)) hues.set(random, Math.round(200 + hues.size * 137.508) % 360);
  return hues.get(random);
}

function moment(ms) {
  return new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}
