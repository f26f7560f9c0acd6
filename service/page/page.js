// The page asks /compare and draws what comes back. Text reaches the document as textContent only.
// Addresses are relative: a proxy may have the service under a prefix.
"use strict";

const TEXTS = {
  en: {
    nothing: "nothing",
    found: "A key is written exactly “{0}”.", missing: "No key is written exactly “{0}”.",
    excluded: "No key that meets the condition is written exactly “{0}”.",
    unmet: "No entry meets the condition.", letters: "Labels must match letter by letter.",
    misread: "In the condition, {0} is {1}: the point stands before decimals.", pair: "In the condition, {0} is two numbers, {1} and {2}: the point stands before decimals.",
    columns: "and, or, not, in (…) and is missing are understood; columns: {0}", example: "for example: {0}",
    encoder: "the encoder's own", fitted: "fitted to the values", given: "given", setting: "the dataset's own",
    otherColumns: "Other columns: {0}",
    others: "all others", othersLabels: "all other labels", listed: "Keys listed: {0}.", first: "Only the first {0} are listed.", keys: "keys: {0}", score: "cosine", between: "90% {2} lies between {0} and {1}", at: "90% {2} lies at {0}", unseen: "90% of unseen values between {0} and {1}", andUnseen: "{0} and of unseen values",
    ofAll: "of the weight", ofKnown: "of that weight", median: "median {0}",
    temperature: "Temperature τ", effective: "Effective keys",
    sure: "Probability that an answer is here at all: {0}.",
    unsure: "Perhaps nothing here answers this. Probability that an answer is here at all: {0}.",
    unlikely: "Probably nothing here answers this. Probability that an answer is here at all: {0}.",
    unknown: "This encoder cannot tell whether an answer is here at all; see how high the best cosine is.",
    weightless: "Write at least one weight above zero.",
    weird: "Cannot be read as a weight: {0}. Write numbers of 0 or more, such as 12.5 or 12.5%.",
    bare: "the key is there, but has no values", unblended: "The dataset has no column of values to blend.",
    scored: "Keys scored", everyKey: "every one",
    sampled: "{0} of {1}, with {2} of the weight; weights within ±{3}",
    of: "{0} of {1}", known: "{0} of the weight has a value.",
    leftOut: "Rows left out: {0}.", merged: "Rows of a key that came before: {0}.",
    taken: "There is a dataset of that name already. Choose another name, or say below what to do then: replace it, or add the rows to it.",
    number: "numbers", vector: "vectors", category: "labels", text: "texts", undecided: "nothing yet", filter: "to filter by",
    problems: { "not-ready": "The service cannot answer now." },
    empty: "There are no datasets yet: load a table of your own.",
    hollow: "The dataset “{0}” has no entries: load a table under that name and have the rows added, or add entries over the API.",
    absent: "There is no dataset “{0}”: choose another.",
    changed: "The file has changed, or is gone, since it was chosen: choose it again.",
    unreachable: "The service does not answer.", sending: "Sending…", queued: "Waiting its turn…",
    reading: "Reading", encoding: "Encoding", writing: "Writing", left: "{0} left", leftOne: "{0} left", loaded: "Entries loaded: {0}. Column of keys: {1}. Others: {2}.",
    lost: "The service no longer knows of the load; perhaps it was restarted. If the table is not among the datasets, load it again: what was encoded is kept.",
    inEnglish: "", asking: "Asking…",
    remove: "Delete the dataset “{0}”…", certain: "Delete the dataset “{0}” (entries: {1})? It cannot be brought back.", removed: "Deleted: {0}.",
    overwrite: "Replace the dataset “{0}” (entries: {1})? What it holds now cannot be brought back.", download: "Download “{0}” as",
    go: "Go to “{0}”", stopped: "Cancelled. If all of it had arrived already, it is loaded anyway.",
    cancelled: "Cancelled; nothing was loaded.", noValue: "no value",
    tokens: "Tokens of the question",
    peak: "Largest cosine/τ (max)", normaliser: "Z, the sum of exp over all keys",
    key: "key", logit: "cosine/τ", exp: "exp(cosine/τ − max)", weight: "weight = exp/Z", masked: "Keys that the mask leaves out",
  },
  es: {
    tagline: "Un diccionario que responde según el significado.",
    question: "Buscar", dataset: "en el conjunto", ask: "Preguntar", try: "Prueba",
    auto: "temperatura automática", sharp: "nítida", flat: "plana",
    soft: "Por significado", weights: "Cuánto cuenta cada clave", exact: "Por búsqueda exacta",
    would: "Una búsqueda exacta habría dicho:", nothing: "nada",
    found: "Hay una clave escrita exactamente así: «{0}».", missing: "Ninguna clave está escrita exactamente así: «{0}».",
    where: "solo las entradas donde (opcional)", excluded: "Ninguna clave que cumpla la condición está escrita exactamente así: «{0}».",
    unmet: "Ninguna entrada cumple la condición.", letters: "Las etiquetas tienen que coincidir letra por letra.",
    misread: "En la condición, {0} es {1}: el punto separa los decimales.", pair: "En la condición, {0} son dos números, {1} y {2}: el punto separa los decimales.",
    columns: "se entienden and, or, not, in (…) e is missing; columnas: {0}", example: "por ejemplo: {0}", tolerance: "margen de error (0 es exacto)",
    encoder: "la del encoder", fitted: "ajustada a los valores", given: "dada", setting: "la del conjunto",
    otherColumns: "Otras columnas: {0}",
    others: "las demás", othersLabels: "las demás etiquetas", more: "Mostrar más claves", listed: "Claves en la lista: {0}.", first: "Solo están en la lista las {0} primeras.", keys: "claves: {0}", score: "coseno", between: "el 90 % {2} está entre {0} y {1}", at: "el 90 % {2} está en {0}", unseen: "el 90 % de los valores no vistos, entre {0} y {1}", andUnseen: "{0} y de los valores no vistos",
    ofAll: "del peso", ofKnown: "de ese peso", median: "mediana {0}",
    temperature: "Temperatura τ", effective: "Claves efectivas",
    sure: "Probabilidad de que aquí haya alguna respuesta: {0}.",
    unsure: "Quizá nada de aquí responda a esto. Probabilidad de que aquí haya alguna respuesta: {0}.",
    unlikely: "Probablemente nada de aquí responde a esto. Probabilidad de que aquí haya alguna respuesta: {0}.",
    unknown: "Con este encoder no se puede saber si aquí hay alguna respuesta; mira cuánto vale el mejor coseno.",
    hand: "Con tus propios pesos", handHelp: "Da a estas claves los pesos que tú elegirías; se ajustan para que sumen el 100 %. Lo que escribas se queda con su clave; lo que vacíes vuelve a ser de la atención en la pregunta siguiente.",
    weightless: "Escribe al menos un peso mayor que cero.",
    weird: "No se puede leer como peso: {0}. Escribe números a partir de 0, como 12,5 o 12,5 %.",
    bare: "la clave está, pero no tiene valores", unblended: "Este conjunto no tiene ninguna columna de valores que mezclar.",
    help: "Cómo leer esto",
    guide: "Todas las claves responden, cada una según lo que se parece su significado al de la pregunta: el coseno, de −1 a 1.\nLos pesos suman el 100 % aunque nada encaje. Por eso, mira primero la probabilidad de que aquí haya alguna respuesta.\nLa respuesta mezcla los valores según esos pesos. El intervalo con el 90 % del peso describe tu tabla. El de los valores no vistos es para un valor que falta en ella: con esa anchura abarcó el 90 % de los suyos, apartando cada uno por turno. Hacen falta 50 valores para saberlo.\nLa temperatura τ hace los pesos más nítidos o más planos: de dos claves cuyos cosenos distan τ, una pesa 2,7 veces lo que la otra.\nClaves efectivas: cuántas claves responden de verdad.\nEn un dibujo, los puntos son claves, más grandes cuanto más pesan; la banda tiene el 90 % del peso; la más pálida, el 90 % de los valores no vistos, y la raya es la respuesta.\nDonde a algunas claves les falta el valor, la respuesta sale de las otras; si estas tienen menos de la mitad del peso, se muestra en pequeño.\nEl margen de error es lo que los pesos pueden distar de los exactos. Cuenta en conjuntos de 100.000 claves o más, donde no hace falta puntuar la mayoría de las claves una a una.",
    scored: "Claves puntuadas", everyKey: "todas",
    sampled: "{0} de {1}, con el {2} del peso; pesos con un margen de ±{3}",
    of: "{0} de {1}", known: "El {0} del peso tiene un valor.",
    own: "Cargar, descargar o borrar un conjunto", keyColumn: "Columna de claves (si se deja vacía, se averigua)",
    types: "Tipos de las columnas (se averiguan), skip deja fuera una: precio=number, nota=skip",
    header: "Primera línea", headed: "da nombre a las columnas (yes)", headless: "es una fila más (no)",
    attributes: "Columnas para filtrar y no mezclar, separadas por comas",
    gaps: "Textos que significan «sin valor», separados por comas", file: "Fichero", name: "Nombre", load: "Cargar", cancel: "Cancelar",
    duplicates: "Una clave repetida", error: "es un error (error)", firstOne: "conserva los primeros valores (first)", lastOne: "conserva los últimos valores (last)", mean: "recibe la media (mean)",
    charset: "Codificación del texto (si se deja vacía, se averigua)", decimal: "Signo decimal", byLooks: "según la columna", byRows: "según su contenido", point: "punto (point): 1.5", comma: "coma (comma): 1,5",
    exists: "Si ya hay un conjunto con ese nombre", refused: "no se carga (error)", replace: "se reemplaza (replace)", append: "se le añaden las filas (append)",
    skip: "dejar fuera las filas que no se puedan leer", leftOut: "Filas que quedan fuera: {0}.", merged: "Filas con una clave que ya había salido: {0}.",
    taken: "Ya hay un conjunto con ese nombre. Elige otro nombre, o di más abajo qué hacer entonces: reemplazarlo o añadirle las filas.",
    number: "números", vector: "vectores", category: "etiquetas", text: "textos", undecided: "aún nada", filter: "para filtrar",
    formats: "CSV, TSV, una tabla de Markdown, JSON, JSON Lines o Parquet: una columna de claves y las demás de valores. No sale de esta máquina.",
    formula: "pesos = softmax(q Kᵀ / τ + máscara), respuesta = pesos · V. Todo se calcula en esta máquina.",
    problems: {
      "invalid-request": "Hay algo que corregir en lo que has escrito.",
      "unreadable-source": "Este fichero no se puede leer como una tabla.",
      "bad-rows": "Algunas filas no se pueden cargar.",
      "not-enough-memory": "La carga no cabría en la memoria.",
      "encoder-unavailable": "No se puede abrir el encoder de este conjunto.",
      "encoder-mismatch": "Este conjunto se escribió con otro encoder.",
      "store-locked": "Otro proceso está escribiendo en la carpeta de los datos.",
      busy: "Hay otra escritura en marcha, quizá una carga; prueba más tarde.",
      "disk-full": "El disco no admite más; no se ha guardado nada de esto.",
      "store-closed": "La carpeta de los datos se ha cerrado.",
      "read-only-store": "Aquí los datos solo se pueden leer.",
      "store-corrupt": "Lo que está guardado no se puede leer.",
      "too-large": "El fichero es demasiado grande.",
      "job-finished": "La carga ya ha terminado, así que no se puede cancelar.",
      "too-many-jobs": "Hay demasiadas cargas esperando; prueba más tarde.",
      "not-ready": "Ahora el servicio no puede responder.",
      stopping: "El servicio se está parando; prueba más tarde.",
      "cross-origin": "El servicio no deja que se cambie nada desde esta dirección.",
      internal: "Algo ha fallado dentro del servicio.",
    },
    empty: "Aún no hay ningún conjunto: carga una tabla tuya.",
    hollow: "El conjunto «{0}» no tiene entradas: carga una tabla con ese nombre y haz que se le añadan las filas, o añade entradas por la API.",
    absent: "No hay ningún conjunto que se llame «{0}»: elige otro.",
    changed: "El fichero ha cambiado, o ya no está, desde que se eligió: vuelve a elegirlo.",
    unreachable: "El servicio no responde.", sending: "Enviando…", queued: "Esperando turno…",
    reading: "Leyendo", encoding: "Codificando", writing: "Escribiendo", left: "quedan {0}", leftOne: "queda {0}", loaded: "Entradas cargadas: {0}. Columna de claves: {1}. Las demás: {2}.",
    lost: "El servicio ya no sabe nada de la carga; quizá se ha vuelto a arrancar. Si la tabla no está entre los conjuntos, vuelve a cargarla: lo ya codificado se conserva.",
    inEnglish: "El servicio lo explica en inglés:", asking: "Preguntando…",
    remove: "Borrar el conjunto «{0}»…", certain: "¿Borrar el conjunto «{0}» (entradas: {1})? No se podrá recuperar.", removed: "Borrado: {0}.",
    overwrite: "¿Reemplazar el conjunto «{0}» (entradas: {1})? Lo que tiene ahora no se podrá recuperar.", download: "Descargar «{0}» como", excel: "CSV con coma decimal (Excel)",
    go: "Ir a «{0}»", stopped: "Cancelado. Si ya había llegado todo, se carga de todos modos.",
    cancelled: "Cancelado; no se ha cargado nada.", noValue: "sin valor",
    steps: "Cada paso, con sus números", json: "Lo mismo en JSON", tokens: "Tokens de la pregunta",
    peak: "Mayor coseno/τ (máx)", normaliser: "Z, la suma de exp de todas las claves",
    key: "clave", logit: "coseno/τ", exp: "exp(coseno/τ − máx)", weight: "peso = exp/Z", masked: "Claves que la máscara deja fuera",
  },
};
// What stands in the page is its English: here it is said in other languages alone.
for (const each of document.querySelectorAll("[data-t]")) TEXTS.en[each.dataset.t] = each.textContent;
const EXAMPLES = {
  paises: ["país", "country", "mascota", "animal"],
  traduccion: ["GATO", "cabello", "libre"],
  colores: ["tropical sea", "wet sand", "verde bosque"],
};
const SVG = "http://www.w3.org/2000/svg";
const SHOWN = 10; // keys that are listed, unless more are asked for
const UNLIKELY = 0.25; // probability below which there is probably no answer
const LABELS = 5; // whose shares are shown
const SPOKEN = 3; // columns that a screen reader is told of at once
const LONGEST = 60; // characters of an example, or of a value in large letters
const ASKED = 1000; // characters of a key that is asked for at first
const HEAVIEST = 1e150; // what the service takes for a weight
const WIDE = 4; // columns that are drawn one under another; more are made to take less room
const BRIEF = 50_000; // bytes of a table that is loaded before there is any progress to show
const REMARKS = 10; // rows that were left out which are told of
const GLIMPSE = 100; // pixels of an answer that are seen to be one
const BLAMED = { "dataset-exists": "name", "unreadable-source": "file", "bad-rows": "file", "too-large": "file" }; // the field that a problem is about where it names none

const $ = (id) => document.getElementById(id);
let address = new URLSearchParams(location.search);
const spoken = [address.get("lang") ?? "", ...navigator.languages].map((tag) => tag.toLowerCase().split("-")[0]);
let language = spoken.find((tag) => Object.hasOwn(TEXTS, tag)) ?? "en";
let last = null; // the comparison that is shown, and its question, to be drawn again in another language
let columns = {}; // of each dataset, by name
let units = new Map(); // of the columns of the answer that is shown
let colours = []; // the names of those that hold colours
let given = null; // the temperature of the address or of an answer, which the slider would round
let tolerances = {}; // of each dataset, in use where the question says none
let hinted = ""; // the layout of the dataset that the condition is written for
let offered = []; // the example questions of the dataset
let bereft = false; // of them, as long as they have not come
let glimpsed = []; // some of its entries
let saying = () => []; // makes what the line of status says, in the language of now
let telling = () => []; // likewise, what is said of a load
let recorded = null; // the question in the address, once one was asked
let asking = null; // the AbortController of the question under way
let listed = SHOWN; // keys of that question, at most
let most = 100; // that are listed when more are asked for
let unfolded = false; // whether a wide table's other columns are shown
let weighing = null; // that of the weights by hand
let weighings = () => []; // makes what their weights give, in the language of now
let explaining = null; // the AbortController of the steps that are asked for
let explained = null; // the comparison whose steps are shown
let steps = () => []; // makes them, in the language of now
let stop = null; // what Cancel does to the load under way
const typed = new Map(); // the weights that a person wrote, by dataset and key
const kept = (() => { try { return sessionStorage ?? {}; } catch { return {}; } })(); // the id of the load, and whether a person did something else since it began: for who leaves and comes back in this tab
let suggested = ""; // the name of the file that was chosen, for a dataset

const t = (name, ...parts) => TEXTS[language][name].replace(/\{(\d)\}/g, (_, i) => parts[i]); // all at once: a part may have braces too
const far = (value) => value !== 0 && !(Math.abs(value) >= 1e-6 && Math.abs(value) < 1e16); // too many zeros to read
const number = (value, digits = 4, roundingMode = "halfExpand") => new Intl.NumberFormat(language, { maximumSignificantDigits: digits, notation: far(value) ? "scientific" : "standard", roundingMode, useGrouping: "min2" }).format(value); // 1984 may be a year
const decimalMark = () => number(1.5)[1];
const decimal = (typed) => typed.trim().replace(",", "."); // a field for numbers would take the commas of the browser's language alone
const isUnclear = (typed) => /^[1-9]\d{0,2}[.,]\d{3}$/.test(typed) && !typed.includes(decimalMark()); // 1.000 may be a thousand where the comma is decimal, and 1,000 where the point is
const whole = (value) => number(value, 17); // as it is stored
const magnitude = (value) => Math.floor(Math.log10(Math.abs(value)));
const rounded = (value, digits = 4, decimals = 0, mode) => number(value, far(value) ? digits : Math.max(digits, Math.min(16, magnitude(value) + 1), Math.min(12, magnitude(value) + 1 + decimals)), mode);
const apart = (spread) => (spread > 0 ? Math.max(0, 1 - magnitude(spread)) : 0); // decimals: two digits of what values lie apart
const unit = (value, name) => new Intl.NumberFormat(language, { style: "unit", unit: name, maximumFractionDigits: 0 }).format(value);
const duration = (seconds) => {
  if (seconds < 60) return unit(Math.ceil(seconds), "second");
  const minutes = Math.ceil(seconds / 60);
  return minutes < 90 ? unit(minutes, "minute") : `${unit(Math.floor(minutes / 60), "hour")} ${unit(minutes % 60, "minute")}`;
};
const left = (words) => t(/^1\s\S+$/.test(words) ? "leftOne" : "left", words); // a single second or minute
const fixed = (value) => new Intl.NumberFormat(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(value);
const share = (value) => new Intl.NumberFormat(language, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 }).format(value);

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children); // strings become text nodes
  return made;
}

function button(words, work, className) {
  const made = element("button", className, words);
  made.type = "button";
  made.addEventListener("click", work);
  return made;
}

function shape(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// -- asking -------------------------------------------------------------------------------------

class Problem extends Error {
  constructor(problem) {
    super(problem.detail);
    this.type = problem.type.split("/").pop();
    this.faults = this.type === "bad-rows" ? [] : problem.errors ?? []; // of rows, the detail has the number, and what to do
    this.fields = [BLAMED[this.type], ...this.faults.map(fieldOf)];
  }
}

const fieldOf = (fault) => fault.where.split(".")[0];

// Mark the fields of a form that a problem is about, and no others; give the first.
function blame(form, fields = []) {
  for (const field of form.elements) {
    if (fields.includes(field.name)) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
  return form.querySelector("[aria-invalid]");
}

// A field as the page calls it, without what its label explains.
function label(name) {
  const field = document.querySelector(`[name="${CSS.escape(name)}"]`) ?? $(name);
  const words = field?.getAttribute("aria-label") ?? field?.labels?.[0]?.querySelector("[data-t]").textContent;
  return words?.replace(/( \(|, ).*/, "");
}

async function call(path, options) {
  let response, body;
  try {
    response = await fetch(path, { headers: { Accept: "application/json" }, ...options });
    body = response.status === 204 ? null : await response.json(); // a proxy may answer for the service, with a page or its own JSON
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new Error("unreachable");
  }
  if (!response.ok) throw body.type ? new Problem(body) : new Error("unreachable");
  return body;
}

// Once what is moved or typed stands still.
function soon(work) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, 120);
  };
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function whenReady(path, options) {
  for (;;) {
    try {
      return await call(path, options);
    } catch (error) {
      if (error.type !== "not-ready") throw error;
      say(explain(error));
      await pause(700);
    }
  }
}

function say(make = () => [], bad = false) {
  saying = make;
  $("status").className = bad ? "status bad" : "status";
  write($("status"), make);
}

// Write a line that is read aloud: once, however often it is said.
function write(line, make) {
  const words = element("p", "", ...make());
  if (words.textContent !== line.textContent) line.replaceChildren(...words.childNodes);
}

// What the service says is English, and is marked so: a voice that reads Spanish would garble it.
function explain(error, name = $("dataset").value) {
  if (!(error instanceof Problem)) return () => [TEXTS[language][error.message] ?? error.message];
  const own = { "unknown-dataset": "absent", "unknown-job": "lost", "dataset-exists": "taken" }[error.type];
  if (own) return () => [t(own, name)];
  const lines = error.faults.length ? error.faults : [error];
  return () => inEnglish(lines, TEXTS[language].problems[error.type]);
}

function inEnglish(lines, heading) {
  const before = [heading, t("inEnglish")].filter(Boolean).join(" ");
  return lines.flatMap((line, i) => {
    const own = line.where && label(fieldOf(line));
    const part = line.where?.slice(fieldOf(line).length + 1); // as the name of a column
    const words = element("span", "", line.where && !own ? `${line.where}: ${line.message}` : line.message);
    words.lang = "en";
    return [...(i ? ["\n"] : before ? [before, "\n"] : []), ...(own ? [part ? `${own}, ${part}: ` : `${own}: `] : []), words];
  });
}

function asked() {
  const dataset = $("dataset").value;
  const shown = last?.question.dataset === dataset ? last.question.q : ""; // who empties the field can still look at what is shown
  const question = { q: $("q").value.trim() || shown, dataset }; // a phone's keyboard puts a blank behind the word that it proposes
  if ($("where").value.trim()) question.where = $("where").value;
  if ($("tolerance").value.trim()) question.tolerance = decimal($("tolerance").value);
  return $("auto").checked ? question : { ...question, temperature: temperature() };
}

// Say that an answer is awaited, where it does not come at once and nothing else is said.
const waitAWhile = () => setTimeout(() => $("status").textContent || say(() => [t("asking")]), 1000);

async function ask() {
  const question = asked();
  if (!question.q.trim() || !question.dataset) return;
  asking?.abort();
  const mine = (asking = new AbortController());
  record(question);
  say();
  const slow = waitAWhile();
  $("result").classList.add("waiting");
  blame($("ask"));
  try {
    const found = await whenReady(`compare?${new URLSearchParams(question)}`, { signal: mine.signal });
    if (isStale(found.soft)) await relist();
    if (mine.signal.aborted) return;
    last = { ...found, question };
    weighings = () => []; // those were of another
    say(() => misread(question));
    draw();
    if (bereft) examples().catch(() => {});
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.fields?.includes("k")) {
      most = listed = Math.max(SHOWN, listed - SHOWN); // the service allows no more
      return ask();
    }
    blame($("ask"), error.fields);
    listed = SHOWN;
    forget();
    clearTimeout(slow); // what is said now stays, until something else is
    say(explain(error, question.dataset), true);
    if (isGone(error) || error.fields?.includes("where")) await relist();
  } finally {
    clearTimeout(slow);
  }
  $("result").classList.remove("waiting");
}

// Where the comma is decimal, 1.200 may have been meant as a thousand and more, and (0,35) as one number: it is said how it is read.
function misread({ where = "" }) {
  const bare = where.trimStart().startsWith("{") ? "" : where.replace(/\[[^\]]*\]|"[^"]*"|'[^']*'|“[^”]*”|‘[^’]*’|«[^»]*»/g, " ");
  const found = bare.match(/(?<![\w.,])\d+\.\d+(?![\w.,])/g)?.find(isUnclear);
  if (found) return [t("misread", found, whole(Number(found)))];
  const pair = decimalMark() === "," && bare.match(/(?<![\w.,])\d+,\d+(?![\w.]|,\d)/)?.[0];
  return pair ? [t("pair", pair, ...pair.split(","))] : [];
}

// What a person asked for is brought into a window that ends above it.
async function submit() {
  if (!$("dataset").value) {
    await began; // which asks what is typed by then
    if (last) return;
    if (!$("dataset").value) await lookAgain();
  }
  const before = last;
  await ask();
  if (last && last === before) return; // another question has taken its place
  $("ask").querySelector("[aria-invalid]")?.focus({ preventScroll: true });
  const shown = $(last && !$("status").textContent ? "result" : "status"); // what is said of the question stands above its answer
  if (shown.getBoundingClientRect().top < visualViewport.height - GLIMPSE) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  shown.scrollIntoView({ block: "start", behavior: still ? "auto" : "smooth" });
}

// Datasets may have come since the page was opened, or the service that has them.
async function lookAgain() {
  if (!(await tryToList(address.get("dataset")))) return;
  if ($("dataset").value) await examples().catch(() => {});
  else say(() => [t("empty")]);
}

// A screen reader hears how many keys are listed now, and not the whole answer again.
async function showMore() {
  const before = last;
  listed = Math.min(most, listed + SHOWN);
  await ask();
  if (!last || last === before) return; // another question has taken its place
  $("spoken").textContent = `${t("listed", number(last.soft.matches.length, 9))} ${$("first").textContent}`;
  if ($("more").hidden && [$("more"), document.body].includes(document.activeElement)) focusOn($("matches").children[before.soft.matches.length] ?? $("first"));
}

// Give the focus to what is no control: the page has just taken it from one.
function focusOn(shown) {
  shown.tabIndex = -1;
  shown.focus({ preventScroll: true });
}

// Another question is a step that "back" undoes; another temperature or language of the same one is not.
function record(question) {
  const another = recorded && ["q", "dataset", "where"].some((name) => recorded[name] !== question[name]);
  if (another) listed = SHOWN;
  if (listed > SHOWN) question.k = listed; // left out, it is at most what the service allows
  recorded = question;
  const shown = address.has("lang") ? { ...question, lang: language } : question;
  history[another ? "pushState" : "replaceState"](null, "", `?${new URLSearchParams(shown)}`);
  document.title = `${question.q} · ${question.dataset} · softdict`;
}

function forget() {
  last = null;
  weighing?.abort(); // its blends would be drawn by the columns of an answer that is gone
  explaining?.abort();
  $("result").hidden = true;
  $("spoken").textContent = "";
  document.title = "softdict";
}

const toThree = (tau) => Number(tau.toPrecision(3));
const temperature = () => given ?? toThree(10 ** $("temperature").value);

// -- drawing ------------------------------------------------------------------------------------

function draw() {
  if (!last) return;
  const { soft, exact, question } = last;
  units = new Map(Object.entries(soft.units ?? {}));
  colours = Object.keys(soft.blend).filter((name) => hasColours(name, soft.matches));
  const blends = byColumn(soft.blend).map(([name, blend]) => drawBlend(name, blend, soft));
  if (!blends.length) blends.push(element("p", "column", t("unblended")));
  const sure = $("trust").textContent = trust(soft, question);
  $("blend").replaceChildren(...blends.slice(0, WIDE), ...drawOthers(blends.slice(WIDE)));
  $("matches").replaceChildren(...soft.matches.map(drawMatch), ...drawRest(soft));
  $("more").hidden = soft.matches.length < listed || soft.matches.length === Math.min(most, soft.attention.keys);
  $("first").textContent = $("more").hidden && soft.matches.length < soft.attention.keys ? t("first", number(soft.matches.length, 9)) : "";
  $("facts").replaceChildren(...drawFacts(soft));
  $("exact").replaceChildren(...drawExact(exact));
  $("exact").classList.toggle("none", !exact.found);
  $("steps").href = `search?${new URLSearchParams({ ...question, explain: 1 })}`;
  $("reason").textContent = t(exact.found ? "found" : question.where ? "excluded" : "missing", short(last.query));
  $("result").classList.toggle("unanswered", !soft.attention.keys); // there is nothing to show but why
  $("result").hidden = false;
  drawHand(soft);
  drawSteps();
  $("spoken").textContent = [
    ...byColumn(soft.blend).slice(0, SPOKEN).map(([name, blend]) => [`${name}: ${short(brief(blend, name))}.`, ...known(blend)].join(" ")),
    `${t("exact")}: ${exact.found ? byColumn(exact.values).slice(0, SPOKEN).map((entry) => short(named(entry))).join(", ") || t("bare") : t("nothing")}.`,
    sure,
  ].join(" ");
  drawTemperature(soft.attention.temperature);
}

function trust({ confidence, attention, dataset }, { where }) {
  if (!attention.keys && where) return namesLabels(dataset, where) ? `${t("unmet")} ${t("letters")}` : t("unmet");
  if (!attention.keys) return t("hollow", dataset);
  if (confidence === null) return t("unknown");
  return t(confidence < UNLIKELY ? "unlikely" : confidence < 0.5 ? "unsure" : "sure", share(confidence));
}

// The keys should not be far below: what is beyond the first columns is folded, until a person unfolds it.
function drawOthers(blends) {
  if (!blends.length) return [];
  const others = element("details", "help", element("summary", "", t("otherColumns", number(blends.length))), ...blends);
  others.open = unfolded;
  others.addEventListener("toggle", () => { unfolded = others.open; });
  return [others];
}

const holdsLabels = ({ type }) => ["category", "text"].includes(type); // of a column, or its blend
const namesLabels = (dataset, where) => (columns[dataset] ?? []).filter(holdsLabels).some(({ name }) => where.includes(name));

function drawBlend(name, blend, soft) {
  const box = element("div", isFaint(blend) ? "blend faint" : "blend", element("h3", "column", name), ...drawKnown(blend));
  if (blend === null) {
    box.append(element("div", "headline", brief(blend)));
    return box;
  }
  const draws = { number: drawNumber, vector: drawVector, category: drawLabels, text: drawLabels };
  box.append(...draws[blend.type](blend, soft.matches.map((match) => [match.values[name], match.weight]), name));
  return box;
}

// What is given by column, in the order of the file: JavaScript puts names that are whole numbers first.
function byColumn(given) {
  const names = (columns[last.dataset] ?? []).map(({ name }) => name);
  return Object.entries(given ?? {}).sort(([one], [other]) => names.indexOf(one) - names.indexOf(other));
}

const isFaint = (blend) => blend?.known < 0.5; // most of the weight says nothing of it
const known = (blend) => (blend?.known < 0.9995 ? [t("known", share(blend.known))] : []); // what is shown as 100.0% needs no words
const drawKnown = (blend) => known(blend).map((words) => element("div", "column", words));

function brief(blend, name) {
  if (blend === null) return t("noValue");
  if (blend.type === "number") return near(blend, blend.mean);
  if (blend.type === "vector") return parts(blend.mean, colours.includes(name) ? Math.round : rounded);
  return text(blend.value);
}

// A number as exact as tells it from those about it; of one that has all the weight, as it is stored.
function near({ interval: [low, high], sd, unit }, value) {
  const stored = (String(low).split(".")[1] ?? "").length;
  const decimals = high > low ? apart(high - low) : sd > 0 ? Math.min(apart(sd), stored) : stored;
  return measured(rounded(value, 3, decimals), unit);
}

function drawNumber(blend, values) {
  const [low, high] = blend.interval;
  const ends = [low, high].map((end) => measured(whole(end), blend.unit)); // they are values of the table
  const weight = t(known(blend).length ? "ofKnown" : "ofAll");
  const unseen = blend.prediction_interval;
  const alike = unseen?.map((end, which) => end === blend.interval[which]);
  const outwards = (end, which) => measured(rounded(end, 3, apart(unseen[1] - unseen[0]), ["floor", "ceil"][which]), blend.unit);
  const notes = [t(low === high ? "at" : "between", ...ends, alike?.every(Boolean) ? t("andUnseen", weight) : weight)];
  if (alike?.includes(false)) notes.push(t("unseen", ...unseen.map((end, which) => (alike[which] ? ends[which] : outwards(end, which))))); // no narrower than it is
  const median = near(blend, blend.median);
  if (low < high && median !== brief(blend)) notes.push(t("median", median));
  const headline = element("div", "headline", brief(blend), " ", element("small", "", notes.join("; ")));
  return [headline, drawAxis(blend, values.filter(([value]) => value !== null))];
}

// A dot for each match, its area its weight; the bands are the intervals, the stroke the mean.
function drawAxis(blend, values) {
  const unseen = blend.prediction_interval ?? blend.interval;
  const all = [...blend.interval, ...unseen, blend.mean, ...values.map(([value]) => value)];
  const from = Math.min(...all);
  const to = Math.max(...all);
  const span = to - from || 1;
  const x = (value) => 4 + ((value - from) / span) * 92; // per cent of the width
  const band = (name, ends) => {
    const [low, high] = ends.map(x);
    return shape("rect", { class: name, x: `${low}%`, y: 12, width: `${Math.max(high - low, 0.5)}%`, height: 16, rx: 3 });
  };
  const label = (end) => (to > from ? measured(rounded(end, 4, apart(to - from)), blend.unit) : brief(blend));
  const axis = shape("svg", { class: "axis", "aria-hidden": "true" });
  axis.append(
    band("unseen", unseen),
    band("band", blend.interval),
    shape("line", { class: "rule", x1: "0%", x2: "100%", y1: 20, y2: 20 }),
    ...values.map(([value, weight]) => shape("circle", { class: "dot", cx: `${x(value)}%`, cy: 20, r: 2 + 10 * Math.sqrt(weight) })),
    shape("line", { class: "mean", x1: `${x(blend.mean)}%`, x2: `${x(blend.mean)}%`, y1: 4, y2: 36 }),
    shape("text", { x: "3%", y: 52 }, label(from)),
    ...(to > from ? [shape("text", { x: "97%", y: 52, "text-anchor": "end" }, label(to))] : []),
  );
  return axis;
}

// Colours are told by what is stored: three whole numbers that a screen has.
function hasColours(name, matches) {
  const held = matches.map(({ values }) => values[name]).filter((value) => value !== null);
  const isColour = (value) => Array.isArray(value) && value.length === 3 && value.every((part) => Number.isInteger(part) && part >= 0 && part <= 255);
  return held.every(isColour) && held.flat().some((part) => part > 1);
}

function swatch(vector, className = "") {
  const made = element("span", `swatch ${className}`);
  made.style.backgroundColor = `rgb(${vector.map(Math.round).join(" ")})`;
  return made;
}

// A value in large letters, or as the colour that it is.
function large(name, value, words, className = "") {
  if (colours.includes(name) && value) return [swatch(value, "large"), element("div", "column", words)];
  if (words.length <= LONGEST) return [element("div", className, words)];
  return [cutting(element("div", `${className} long`, words))];
}

const drawVector = (blend, _, name) => large(name, blend.mean, brief(blend, name), "headline");

function drawLabels(blend) {
  const row = (name, probability, className = "") => element("li", className, name, drawBar(probability), element("span", "weight", share(probability)));
  const shown = blend.distribution.slice(0, LABELS);
  const rows = shown.map(({ value, probability }) => row(cut(text(value)), probability));
  const others = Math.max(0, 1 - shown.reduce((sum, { probability }) => sum + probability, 0));
  if (blend.distribution.length > LABELS || blend.rest) rows.push(row(element("span", "key", t("othersLabels")), others, "rest"));
  const headline = large(null, blend.value, brief(blend), "headline");
  return rows.length > 1 ? [...headline, element("ol", "shares", ...rows)] : headline;
}

// A key, a label or a row of values that does not fit is a button that shows all of it, and hides it again.
const cuts = new ResizeObserver((seen) => {
  for (const { target } of seen) {
    if (target.ariaExpanded === "true") continue;
    const isCut = target.scrollHeight > target.clientHeight + 1;
    Object.assign(target, { role: isCut ? "button" : null, ariaExpanded: isCut ? "false" : null });
    if (isCut) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});

function short(words) {
  const letters = [...words.slice(0, 2 * LONGEST + 1)]; // of two units each at most, and a value may have millions
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}…` : words;
}

function cutting(made) {
  cuts.observe(made);
  return made;
}

const cut = (words) => cutting(element("span", "key", words));

function showWhole(event) {
  const made = event.target.closest("#result [role=button][aria-expanded]");
  if (!made || (event.type === "keydown" ? !["Enter", " "].includes(event.key) : !getSelection().isCollapsed)) return; // who marks a part may want to copy it
  event.preventDefault(); // a label would hand it on to its field, and a space move the page
  made.ariaExpanded = made.ariaExpanded === "false";
}

function drawBar(weight) {
  const fill = element("div", "fill");
  fill.style.width = `${100 * weight}%`;
  const track = element("div", "track", fill);
  track.setAttribute("aria-hidden", "true");
  return track;
}

function drawMatch(match) {
  const entries = byColumn(match.values);
  const values = entries.map(([name, value]) => {
    const shown = element("span", "value");
    if (colours.includes(name) && value) shown.append(swatch(value));
    shown.append(entries.length > 1 ? named([name, value]) : text(value, units.get(name)));
    return shown;
  });
  for (const entry of byColumn(match.attributes)) values.push(element("span", "value", named(entry)));
  const weight = element("span", "weight", share(match.weight), element("span", "score", `${t("score")} ${fixed(match.score)}`));
  const bar = drawBar(match.weight);
  const inside = values.length > WIDE || values.some(({ textContent }) => textContent.length > 2 * LONGEST)
    ? [cut(match.key), bar, weight, cutting(element("div", "values", ...values))]
    : [element("div", "", cut(match.key), ...values), bar, weight];
  const row = element("li", "match", ...inside);
  row.dataset.key = match.key;
  row.dataset.weight = match.weight;
  return row;
}

function drawRest(soft) {
  const others = soft.attention.keys - soft.matches.length;
  if (others <= 0) return [];
  const weight = Math.max(0, 1 - soft.matches.reduce((sum, match) => sum + match.weight, 0));
  const name = element("div", "", element("span", "key", t("others")), element("span", "value", t("keys", number(others, 9))));
  return [element("li", "rest", name, drawBar(weight), element("span", "weight", share(weight)))];
}

function drawFacts({ attention }) {
  const facts = [
    ["temperature", `${number(attention.temperature, 3)} (${TEXTS[language][attention.temperature_source] ?? attention.temperature_source})`],
    ["effective", t("of", rounded(attention.effective_keys, 3), number(attention.keys, 9))],
    ["scored", drawScored(attention)],
  ];
  return facts.map(drawFact);
}

const drawFact = ([name, value]) => element("div", "", element("dt", "", t(name)), element("dd", "", value));

function drawScored({ scored, keys, coverage, error }) {
  if (error === 0) return t("everyKey");
  return t("sampled", number(scored, 9), number(keys, 9), share(coverage), number(Math.ceil(error * 1000) / 1000));
}

function drawExact(exact) {
  if (!exact.found) return [t("nothing")];
  const entries = byColumn(exact.values);
  if (!entries.length) return [t("bare")];
  return entries.flatMap(([name, value]) => [
    ...(entries.length > 1 ? [element("div", "column", name)] : []),
    ...large(name, value, text(value, units.get(name)), entries.length > WIDE ? "long" : ""),
  ]);
}

const place = (key) => JSON.stringify([last.dataset, key]); // of a weight that was typed

function weightLine(key) {
  const field = element("input");
  const where = place(key);
  Object.assign(field, { inputMode: "decimal", autocomplete: "off", value: typed.get(where) ?? "" });
  field.addEventListener("input", () => { typed.set(where, field.value); weighSoon(); });
  const line = element("label", "", cut(key), field);
  line.dataset.place = where;
  return line;
}

// A weight that was typed stays with its key; the others are those of attention.
function drawHand(soft) {
  const [shown, held] = [$("hand-weights"), document.activeElement];
  const before = new Map([...shown.children].map((line) => [line.dataset.place, line])); // who types in one is not interrupted
  const lines = soft.matches.slice(0, SHOWN).map(({ key, weight }) => {
    const line = before.get(place(key)) ?? weightLine(key);
    if (line.lastChild !== held && !typed.get(place(key))?.trim()) {
      typed.delete(place(key));
      line.lastChild.value = number(100 * weight, 2);
    }
    return line;
  });
  if (lines.length !== shown.children.length || lines.some((line, at) => line !== shown.children[at])) shown.replaceChildren(...lines);
  if (shown.contains(held)) held.focus({ preventScroll: true });
  drawWeighings();
  weigh();
}

const drawWeighings = () => $("hand-blend").replaceChildren(...weighings());

function drawManual(manual) {
  const width = Object.keys(manual).length;
  if (!width) return [element("div", "column", t("unblended"))];
  return byColumn(manual).map(([name, blend]) => element("div", isFaint(blend) ? "faint" : "",
    ...(width > 1 ? [element("div", "column", name)] : []),
    ...drawKnown(blend),
    ...large(name, blend?.mean, brief(blend, name), width > WIDE ? "long" : "")));
}

async function weigh() {
  weighing?.abort();
  if (!$("hand").open || !last) return;
  const mine = (weighing = new AbortController());
  const { query, dataset, soft } = last;
  const weights = new Map();
  const weird = [];
  for (const [i, { lastChild: field }] of [...$("hand-weights").children].entries()) {
    const { key, weight } = soft.matches[i];
    const own = field.value.replace(/%\s*$/, "").trim();
    const given = typed.has(place(key)) ? Number(decimal(own)) : 100 * weight; // not as it is rounded
    const readable = given >= 0 && given <= HEAVIEST && !isUnclear(own);
    field.setAttribute("aria-invalid", !readable);
    field.setAttribute("aria-describedby", readable ? "" : "hand-blend");
    if (!readable) weird.push(field.value);
    else if (given > 0) weights.set(key, given);
  }
  try {
    if (weird.length) weighings = () => [element("div", "column", t("weird", weird.join(", ")))];
    else if (!weights.size) weighings = () => [element("div", "column", t("weightless"))];
    else {
      const body = JSON.stringify({ q: query, dataset, weights: Object.fromEntries(weights), k: 1 });
      const headers = { Accept: "application/json", "Content-Type": "application/json" };
      const { manual } = await call("compare", { method: "POST", headers, body, signal: mine.signal });
      weighings = () => drawManual(manual.blend);
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    weighings = explain(error, dataset);
  }
  drawWeighings();
}

// Every step of the answer that is shown, once somebody wants to see them.
async function drawSteps() {
  if (!$("explained").open || !last) return;
  const shown = $("explanation");
  if (explained === last) return shown.replaceChildren(...steps()); // in another language
  explaining?.abort();
  const mine = (explaining = new AbortController());
  const answer = last;
  shown.classList.add("waiting");
  if (!shown.textContent) shown.textContent = t("asking");
  try {
    const { explanation } = await call($("steps").getAttribute("href"), { signal: mine.signal });
    explained = answer;
    steps = () => drawExplanation(explanation, answer.soft.blend);
  } catch (error) {
    if (error.name === "AbortError") return;
    explained = null; // opened once more, they are asked for again
    steps = explain(error);
  }
  shown.replaceChildren(...steps());
  shown.classList.remove("waiting");
}

function drawExplanation({ tokens, temperature, max_logit: peak, normaliser, masked, error, rows, others }, blends) {
  const facts = [
    ["tokens", tokens.join(" · ")],
    ["temperature", number(temperature)],
    ...(masked ? [["masked", number(masked, 9)]] : []),
    ...(rows.length ? [["peak", number(peak)], ["normaliser", `${error ? "≈ " : ""}${rounded(normaliser)}`]] : []),
  ];
  const sums = byColumn(blends).filter(([, blend]) => blend).map(([name, blend]) => drawSum(name, blend, rows, others.keys, error));
  return [element("dl", "facts", ...facts.map(drawFact)), ...(rows.length ? [drawTable(rows, others), ...sums] : [])];
}

// A blend written out as the sum that it is; a label is what weighs most, and no sum.
function drawSum(name, blend, rows, others, error) {
  const isolated = (words) => element("bdi", "", words); // what is written from right to left moves nothing else
  const spelled = (value) => isolated(Array.isArray(value) ? `(${text(value)})` : short(text(value, blend.unit)));
  const valued = rows.filter(({ values }) => values[name] !== null);
  const terms = valued.flatMap(({ weight, values }, at) => [`${at ? " + " : ""}${number(weight, 3)} · `, spelled(values[name])]);
  const sum = [...terms, ...(others ? [terms.length ? " + …" : "…"] : [])];
  const whole = known(blend).length ? ["(", ...sum, `) / ${number(blend.known, 3)}`] : sum;
  const equals = holdsLabels(blend) ? "→" : error ? "≈" : "=";
  return element("p", "", isolated(name), ": ", ...whole, ` ${equals} `, isolated(short(brief(blend, name))));
}

function drawTable(rows, others) {
  const names = ["key", "score", "logit", "exp", "weight"];
  const head = names.map((name) => scoped("col", t(name)));
  const body = rows.map(({ key, ...row }) => drawRow(cut(key), names.slice(1).map((name) => number(row[name]))));
  if (others.keys) body.push(drawRow(`${t("others")} (${t("keys", number(others.keys, 9))})`, ["", "", rounded(others.exp), number(others.weight)]));
  const box = element("div", "sideways", element("table", "", element("thead", "", element("tr", "", ...head)), element("tbody", "", ...body)));
  box.tabIndex = 0; // for the arrow keys to move it
  box.setAttribute("role", "region");
  box.setAttribute("aria-labelledby", "steps-title");
  return box;
}

const drawRow = (name, cells) => element("tr", "", scoped("row", name), ...cells.map((cell) => element("td", "", cell)));

function scoped(scope, name) {
  const made = element("th", "", name);
  made.scope = scope;
  return made;
}

// Move the slider, beyond its ends where τ is.
function slide(tau) {
  const [slider, place] = [$("temperature"), Math.log10(tau)];
  slider.min = Math.min(slider.min, place);
  slider.max = Math.max(slider.max, place);
  slider.value = place;
}

function drawTemperature(used) {
  const told = used > 0 && ($("auto").checked || given); // by the answer; the slider is ahead of it
  if (told) slide(used);
  const tau = told ? used : temperature();
  $("tau").textContent = `τ = ${tau > 0 ? number(tau, 3) : tau}`; // the address may name a way to choose it
  $("temperature").setAttribute("aria-valuetext", $("tau").textContent);
}

function text(value, unit) {
  if (value === null) return t("noValue");
  if (Array.isArray(value)) return parts(value, whole);
  if (typeof value === "number") return measured(whole(value), unit);
  return value.trim() ? value : `"${value}"`; // as a condition has it: of itself it could not be seen
}

const measured = (shown, unit) => (unit ? `${shown}\u00a0${unit}` : shown);
const named = ([name, value]) => `${name}: ${text(value, units.get(name))}`;
const parts = (vector, show) => vector.slice(0, 8).map((part) => show(part)).join(decimalMark() === "," ? "; " : ", ") + (vector.length > 8 ? " …" : "");

// -- datasets -----------------------------------------------------------------------------------

// Choose the wanted one, unless a person chooses another while the list is on its way.
async function listDatasets(wanted) {
  const before = $("dataset").value;
  const { datasets } = await call("datasets");
  const chosen = $("dataset").value;
  return offerDatasets(datasets, chosen === before ? wanted : chosen);
}

function offerDatasets(datasets, wanted) {
  const names = datasets.map(({ name }) => name);
  columns = Object.fromEntries(datasets.map((each) => [each.name, each.columns]));
  tolerances = Object.fromEntries(datasets.map((each) => [each.name, each.tolerance_in_use]));
  const list = $("dataset");
  if (JSON.stringify(names) !== JSON.stringify([...list.options].map(({ value }) => value))) list.replaceChildren(...names.map((name) => new Option(name, name)));
  list.value = names.includes(wanted) ? wanted : names[0] ?? "";
  return names;
}

// What was loaded elsewhere meanwhile is in the list when a person comes back to the page.
async function catchUp() {
  await began;
  const { datasets } = await call("datasets");
  const chosen = $("dataset").value;
  if (chosen && !datasets.some(({ name }) => name === chosen)) return; // the next question will tell
  offerDatasets(datasets, chosen);
  if (!chosen && datasets.length) await chooseDataset();
  else if (layout(chosen) !== hinted) drawHint();
}

// List the datasets; where they cannot be had, what is said of a load stays.
async function tryToList(wanted) {
  try {
    await listDatasets(wanted);
    return true;
  } catch (error) {
    say(explain(error), true);
    return false;
  }
}

const isGone = (error) => error.type === "unknown-dataset";

// Whether an answer has other columns, or of other types, than the page knows of its dataset.
function isStale({ dataset, blend }) {
  const own = (columns[dataset] ?? []).filter(({ attribute }) => !attribute);
  return own.length !== Object.keys(blend).length || !own.every(({ name, type }) => Object.hasOwn(blend, name) && [type, undefined].includes(blend[name]?.type));
}

// Datasets that somebody else has deleted or replaced are shown as they are now.
async function relist() {
  const name = $("dataset").value;
  try {
    await listDatasets(name);
    await ($("dataset").value === name ? examples() : refit());
  } catch {} // what is wrong the next question will tell
}

// A column's name as a condition spells it: in brackets unless it is a simple word and none of the language's own.
const isWord = (name) => /^[\p{L}_][\p{L}\p{N}_.-]*$/u.test(name) && !/^(and|or|not|in|is|missing)$/i.test(name);
const spelled = (name) => (isWord(name) ? name : `[${name.replaceAll("]", "]]")}]`);

// What a condition may name: one is kept where another dataset is laid out alike.
const layout = (name) => JSON.stringify((columns[name] ?? []).map((column) => [column.name, column.type]));

function drawHint() {
  const name = $("dataset").value;
  hinted = layout(name);
  const own = columns[name] ?? [];
  const example = drawCondition(own);
  $("where").placeholder = example ? t("example", example) : "";
  $("columns").textContent = own.length ? t("columns", own.map((column) => `${spelled(column.name)} (${t(column.type)})`).join(", ")) : "";
  const isCut = $("columns").scrollHeight > $("columns").clientHeight; // the keyboard has to reach the rest
  for (const [name, value] of [["tabindex", 0], ["role", "group"], ["aria-label", t("filter")]]) {
    if (isCut) $("columns").setAttribute(name, value);
    else $("columns").removeAttribute(name);
  }
  $("tolerance").placeholder = number(tolerances[name] ?? 0);
  $("delete").textContent = t("remove", name);
  $("download").firstChild.textContent = t("download", name);
  for (const link of $("download").querySelectorAll("a")) link.href = `datasets/${encodeURIComponent(name)}/export?${link.dataset.as}`;
  $("delete").hidden = $("download").hidden = !name;
}

// A condition that some entry meets, with the column that shows best how: numbers have an order too.
function drawCondition(own) {
  const best = ["number", "category", "text"].map((type) => own.find((column) => column.type === type)).find(Boolean);
  if (!best) return "";
  const held = glimpsed.map((entry) => entry[best.name]);
  if (best.type !== "number") {
    const label = held.find((value) => typeof value === "string" && value.length <= LONGEST && value === onOneLine(value));
    return `${spelled(best.name)} = ${label === undefined ? "…" : `"${label.replaceAll('"', '""')}"`}`;
  }
  const values = held.filter((value) => typeof value === "number").sort((one, other) => one - other);
  const middle = values[values.length >> 1] ?? 5;
  return `${spelled(best.name)} ${values[0] < middle ? "<" : "<="} ${middle}`;
}

// What a field of one line can hold: it would glue the words about a line break.
const onOneLine = (words) => words.replace(/\s*[\r\n]+\s*/g, " ");

function oneLiners(keys) {
  const whole = keys.filter((key) => key === onOneLine(key));
  return whole.length ? whole : keys.map(onOneLine);
}

const first = (words) => words.find((word) => word.length <= ASKED) ?? "";

async function examples() {
  const name = $("dataset").value;
  glimpsed = [];
  drawHint();
  bereft = true;
  const { entries } = name ? await call(`datasets/${encodeURIComponent(name)}/entries?limit=4`) : { entries: [] };
  if (name !== $("dataset").value) return null; // another was chosen meanwhile
  const words = Object.hasOwn(EXAMPLES, name) ? EXAMPLES[name] : oneLiners(entries.map(({ key }) => key));
  glimpsed = entries.map(({ values }) => values);
  drawHint();
  bereft = false;
  offered = words;
  $("examples").replaceChildren(...words.filter((word) => word.length <= LONGEST).map((word) => button(word, () => { $("q").value = word; submit(); })));
  return words;
}

// Fit the form to another dataset; a question that a person typed is not replaced.
async function refit() {
  const [here, before] = [address, offered];
  if (layout($("dataset").value) !== hinted) $("where").value = ""; // it named the columns of another
  const words = await examples();
  if (!words || here !== address) return null; // another was chosen, or gone back to, meanwhile
  if (["", ...before].includes($("q").value)) $("q").value = first(words);
  return words;
}

async function chooseDataset() {
  const [here, name] = [address, $("dataset").value];
  asking?.abort();
  forget();
  say();
  const slow = waitAWhile();
  try {
    const words = await refit();
    if (!words) return;
    if (words.length) await ask();
    else say(() => [t(name ? "hollow" : "empty", name)]);
  } catch (error) {
    if (here !== address || name !== $("dataset").value) return;
    $("examples").replaceChildren(); // they were those of another
    say(explain(error, name), true);
    if (isGone(error)) await relist();
  } finally {
    clearTimeout(slow);
  }
}

// -- loading ------------------------------------------------------------------------------------

// A screen reader hears how a load begins and ends, and not each of its figures.
function tell(make, { bad = false, live = "polite" } = {}) {
  telling = make;
  $("loading").setAttribute("aria-live", live);
  $("loading").className = bad ? "bad" : "";
  write($("loading"), make);
}

// Buttons are disabled while their work goes on. Who pressed one finds the focus there again, or on what is said of it.
async function once(work, name) {
  const [pressed, buttons] = [document.activeElement, [$("load"), $("delete")]];
  for (const button of buttons) button.disabled = true;
  if (pressed.disabled) focusOn($("loading"));
  $("loading").scrollIntoView({ block: "nearest" });
  tell(() => []); // what is said of it is said anew, if in the same words
  try {
    await work();
  } catch (error) {
    tell(explain(error, name), { bad: true });
    const field = blame($("upload"), error.fields);
    if ($("upload").contains(document.activeElement)) field?.focus({ preventScroll: true });
    $("loading").scrollIntoView({ block: "nearest" });
  }
  for (const button of buttons) button.disabled = false;
  if (document.activeElement === $("loading")) pressed.focus({ preventScroll: true });
}

// See a load to its end; `send` gives its outcome, or its job.
async function load(send) {
  const file = $("file").files[0];
  blame($("upload"));
  $("progress").hidden = false;
  $("progress").removeAttribute("value");
  await once(async () => {
    const sent = await send();
    const outcome = "state" in sent ? await finished(sent) : sent;
    offerCancel();
    await began;
    const follow = !kept.touched || !$("dataset").value; // what a person does meanwhile is theirs
    tell(() => [
      t("loaded", number(outcome.loaded, 9), outcome.key_column, outcome.columns.map(drawColumn).join(", ") || "–"),
      ...(outcome.duplicates ? [" ", t("merged", number(outcome.duplicates, 9))] : []),
      ...(outcome.bad_row_count ? [" ", t("leftOut", number(outcome.bad_row_count, 9))] : []),
      ...drawRemarks(outcome),
      ...(follow ? [] : [" ", button(t("go", outcome.dataset), () => go(outcome.dataset), "quiet")]),
    ]);
    $("exists").value = "error"; // each load is asked for anew
    $("skip").checked = false;
    if ($("file").files[0] === file) $("upload").reset(); // and no other table was chosen meanwhile
    if (!(await tryToList(follow ? outcome.dataset : $("dataset").value))) return;
    if (!follow) return drawHint();
    await chooseDataset();
    $("loading").scrollIntoView({ block: "nearest" }); // the answer above it has grown
  });
  offerCancel();
  $("progress").hidden = true;
}

// Which rows were left out, and what else the service has to say of a table.
function drawRemarks({ bad_rows: bad, bad_row_count: count, notes }) {
  const rows = bad.slice(0, REMARKS).map(({ line, reason }) => ({ message: `line ${line}: ${reason}` }));
  const lines = [...rows, ...(count > rows.length && rows.length ? [{ message: "…" }] : []), ...notes.map((note) => ({ message: `${note}.` }))];
  return lines.length ? ["\n", ...inEnglish(lines)] : [];
}

function go(name) {
  $("dataset").value = name;
  $("dataset").focus();
  chooseDataset();
}

// What Cancel does now; without it there is nothing to cancel.
function offerCancel(how = null) {
  stop = how;
  if (!how && document.activeElement === $("cancel")) focusOn($("loading"));
  $("cancel-line").hidden = !how;
}

async function cancel() {
  const how = stop;
  stop = null; // once is enough
  try {
    await how?.();
  } catch (error) {
    if ($("cancel-line").hidden) return; // the load has ended meanwhile
    stop = how;
    tell(explain(error), { bad: true });
  }
}

async function sendTable() {
  if ($("exists").value === "replace" && !(await agreed("overwrite", $("name").value))) throw new Error("cancelled");
  tell(() => [t("sending")]);
  const table = new FormData($("upload"));
  for (const [name, value] of [...table]) if (typeof value === "string" && !value.trim()) table.delete(name);
  const [file] = $("file").files;
  if (file.size > BRIEF) table.set("wait", "0"); // for progress to be seen
  const sending = new AbortController();
  offerCancel(() => sending.abort(new Error("stopped")));
  $("cancel-line").scrollIntoView({ block: "nearest" });
  try {
    return await call("datasets", { method: "POST", body: table, signal: sending.signal });
  } catch (error) {
    if (error.message === "unreachable" && !(await isReadable(file))) throw Object.assign(new Error("changed"), { fields: ["file"] });
    throw error;
  }
}

// A browser reads a chosen file only as it was then.
const isReadable = (file) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);

// What a dataset holds is not lost before a person agrees. Where there is none, nothing is.
async function agreed(question, name) {
  const { datasets } = await call("datasets");
  const there = datasets.find((each) => each.name === name);
  return !there || confirm(t(question, name, number(there.entries, 9)));
}

async function deleteDataset(name) {
  if (!(await agreed("certain", name))) return;
  try {
    await call(`datasets/${encodeURIComponent(name)}`, { method: "DELETE" });
    tell(() => [t("removed", name)]);
  } catch (error) {
    if (!isGone(error)) throw error;
    tell(explain(error, name), { bad: true });
  }
  if (await tryToList($("dataset").value)) await chooseDataset();
}

async function finished(state) {
  kept.job = state.id;
  offerCancel(() => call(`jobs/${state.id}`, { method: "DELETE" }));
  try {
    while (state.finished === null) {
      try {
        state = await call(`jobs/${state.id}`);
        if (state.finished === null) drawProgress(state);
      } catch (error) {
        if (error instanceof Problem) throw error;
        tell(explain(error), { bad: true }); // the load goes on, and is asked after again
      }
      await pause(400);
    }
  } finally {
    delete kept.job;
  }
  if (state.state === "cancelled") throw new Error("cancelled");
  if (state.problem) throw new Problem(state.problem);
  return state.result;
}

const drawColumn = ({ name, type, attribute, unit }) => `${name} (${[t(type), ...(attribute ? [t("filter")] : []), ...(unit ? [unit] : [])].join(", ")})`;

function drawProgress({ state, progress }) {
  if (!progress) return tell(() => [state === "queued" ? t("queued") : `${t("reading")}…`], { live: "off" });
  const total = progress.total === null ? "" : ` / ${number(progress.total, 9)}`;
  const rate = progress.rate === null ? "" : ` · ${number(progress.rate, 3)}/s`;
  const rest = !progress.seconds_left ? "" : ` · ${left(duration(progress.seconds_left))}`;
  tell(() => [`${t(progress.phase)} ${number(progress.done, 9)}${total}${rate}${rest}`], { live: "off" });
  if (progress.total) $("progress").value = progress.done / progress.total;
  else $("progress").removeAttribute("value");
}

function nameFromFile() {
  const file = $("file").files[0];
  if (!file || !["", suggested].includes($("name").value)) return; // a name that a person typed stays
  const stem = file.name.replace(/\.gz$/i, "").replace(/\.[^.]*$/, "").normalize("NFC"); // a Mac may write accents apart from their letters
  suggested = stem.replace(/[^\p{L}\p{M}\p{N}_.-]+/gu, "-").replace(/^[-_.\p{M}]+/u, "").slice(0, 100);
  $("name").value = suggested;
}

// -- the page -----------------------------------------------------------------------------------

function translate() {
  document.documentElement.lang = language;
  for (const each of document.querySelectorAll("[data-t]")) each.textContent = t(each.dataset.t);
  $("language").textContent = language === "es" ? "English" : "Español";
  $("language").lang = language === "es" ? "en" : "es";
  $("language").setAttribute("aria-label", $("language").textContent);
  $("temperature").setAttribute("aria-label", `${t("temperature")}, ${t("sharp")} – ${t("flat")}`);
  $("status").replaceChildren(...saying());
  $("loading").replaceChildren(...telling());
  drawHint();
  drawTemperature(0);
  draw();
}

async function start() {
  const here = address;
  recorded = null;
  listed = Math.min(most, Math.max(SHOWN, Math.floor(here.get("k")) || SHOWN));
  for (const name of ["q", "where", "tolerance"]) $(name).value = onOneLine(here.get(name) ?? ""); // and may be typed over from now on
  const tau = decimal(here.get("temperature") ?? "");
  given = ["", "auto"].includes(tau) ? null : tau;
  $("auto").checked = !given;
  if (tau > 0) slide(Number(tau));
  drawTemperature(0);
  const slow = waitAWhile();
  try {
    await whenReady("readyz");
    say();
    const wanted = here.get("dataset")?.normalize("NFC");
    const names = await listDatasets(wanted);
    if (!names.length) return say(() => [t("empty")]);
    const words = await examples();
    if (!words || here !== address) return; // another was chosen, or gone back to, meanwhile
    if (!$("q").value.trim()) $("q").value = first(words);
    if (wanted && !names.includes(wanted)) return say(() => [t("absent", wanted)], true);
    if (!words.length) return say(() => [t("hollow", $("dataset").value)]);
    clearTimeout(slow);
    await ask();
  } catch (error) {
    say(explain(error), true);
  } finally {
    clearTimeout(slow);
  }
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!$("q").value.trim()) $("q").value = ""; // for the browser to say that something is missing
  if ($("ask").reportValidity()) submit();
});
$("dataset").addEventListener("change", chooseDataset);
$("auto").addEventListener("change", () => { given = last && !$("auto").checked ? toThree(last.soft.attention.temperature) : null; ask(); });
const [askSoon, weighSoon] = [soon(ask), soon(weigh)];
$("explained").addEventListener("toggle", drawSteps);
$("temperature").addEventListener("input", () => {
  $("auto").checked = false;
  given = null;
  drawTemperature(0);
  askSoon();
});
$("more").addEventListener("click", showMore);
$("hand").addEventListener("toggle", weigh);
for (const type of ["click", "keydown"]) $("result").addEventListener(type, showWhole);
$("language").addEventListener("click", () => {
  language = language === "es" ? "en" : "es";
  address.set("lang", language);
  const shown = new URLSearchParams(location.search);
  shown.set("lang", language);
  history.replaceState(null, "", `?${shown}`);
  translate();
});
$("file").addEventListener("change", nameFromFile);
$("name").addEventListener("change", () => { $("name").value = $("name").value.trim().normalize("NFC").replace(/\s+/g, "-"); });
$("upload").addEventListener("submit", (event) => {
  event.preventDefault();
  delete kept.touched;
  load(sendTable);
});
$("delete").addEventListener("click", () => {
  const name = $("dataset").value;
  once(() => deleteDataset(name), name);
});
$("cancel").addEventListener("click", cancel);
for (const type of ["input", "click", "popstate"]) addEventListener(type, ({ target }) => { if (!target.closest?.(".upload")) kept.touched = "yes"; });
addEventListener("focus", () => catchUp().catch(() => {})); // a question will tell what is wrong
addEventListener("popstate", () => {
  const chosen = address.has("lang");
  address = new URLSearchParams(location.search);
  if (chosen) address.set("lang", language);
  asking?.abort();
  forget();
  start();
});

translate();
const began = start();
if (kept.job) {
  $("upload").parentElement.open = true;
  load(() => ({ id: kept.job, state: "queued", finished: null }));
}
