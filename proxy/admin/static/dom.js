// Building and updating elements. Text from outside only ever becomes a text node or an attribute, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element; attributes that begin with "on" are listeners, `null` and `false` are left out. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return an SVG element. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Set, change or (with null or false) remove one attribute; nothing happens when it is so already. */
export function setAttribute(element, name, value) {
  if (name.startsWith("on")) {
    element.addEventListener(name.slice(2), value);
  } else if (value === null || value === false || value === undefined) {
    element.removeAttribute(name);
  } else {
    const text = value === true ? "" : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** Set the text of an element if it differs. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Make the children of `parent` match `items`, in order, keeping the element of each key.
 * `create(item)` returns `{element, update(item)}`; `views` is the Map that remembers them between calls.
 */
export function keyed(parent, views, items, keyOf, create) {
  const wanted = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    wanted.add(key);
    let view = views.get(key);
    if (view === undefined) {
      view = create(item);
      views.set(key, view);
    }
    view.update(item);
    if (view.element === place) place = place.nextElementSibling;
    else parent.insertBefore(view.element, place);
  }
  for (const [key, view] of views) {
    if (!wanted.has(key)) {
      view.element.remove();
      views.delete(key);
    }
  }
}
