// check.mjs URL [TOKEN [PICTURES]]: opens the web page of a server in headless Chromium, at the width of a desk and of a
// telephone, light and dark, and looks at each view: no error of the browser (so no breach of the page's policy), nothing
// wider than the screen, no finding of axe (WCAG 2.1 A and AA), the views reached by keys. With a token it changes a
// setting. PICTURES is a folder for pictures of the views. $RESOLVE are names of hosts for the browser (its option
// host-resolver-rules). $PLAIN is the page over http by a name, so that the browser takes it for that of another machine: there
// it asks for no token, and leads to URL.
import { createRequire } from "node:module";
const require = createRequire(process.env.NODE_PATH + "/");
const puppeteer = require("puppeteer-core");
const axe = require.resolve("axe-core/axe.min.js");

const [url, token, pictures] = process.argv.slice(2);
const VIEWS = ["overview", "clients", "exports", "operations", "connections", "locks", "pools", "calls", "reports", "settings"];
const SCREENS = [["desk", 1280, 900, "light"], ["desk", 1280, 900, "dark"], ["telephone", 390, 844, "light"], ["telephone", 390, 844, "dark"]];
const findings = [];
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=" + (process.env.RESOLVE ?? "")],
});

// hold(WHERE, FACT, WHAT): FACT holds, or WHAT is a finding
const hold = (where, fact, what) => { if (!fact) findings.push(`${where}: ${what}`); };

async function open(width, height, theme) {
  const page = await browser.newPage();
  page.on("console", (message) => hold(url, message.type() !== "error", message.text()));
  page.on("pageerror", (error) => hold(url, false, error.message));
  page.on("request", (request) => hold(url, request.url().startsWith(url), "asks elsewhere: " + request.url()));
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.goto(url);
  await page.waitForFunction(() => document.querySelectorAll("#figures div").length > 0);
  return page;
}

// look(PAGE, WHERE): it fits the screen, and axe finds nothing
async function look(page, where) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  hold(where, wide <= 0, `${wide} pixels wider than the screen`);
  await page.evaluate(require("node:fs").readFileSync(axe, "utf8") + ";0");
  const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
  for (const { id, help, nodes } of found.violations) hold(where, false, `axe ${id}: ${help}: ${nodes[0].html.slice(0, 300)}`);
}

for (const [screen, width, height, theme] of SCREENS) {
  const page = await open(width, height, theme);
  for (const view of VIEWS) {
    const where = `${view}, ${screen}, ${theme}`;
    await page.evaluate((view) => { location.hash = view; }, view);
    await page.waitForFunction((view) => view === "overview" || document.querySelectorAll("#tables table").length > 0, {}, view);
    if (view === "overview") await page.waitForFunction(() => document.querySelector("[role=img]")?.ariaLabel.includes("now"));
    await look(page, where);
    if (pictures) await page.screenshot({ path: `${pictures}/${screen}-${theme}-${view}.png` });
  }
  // a report, by its link: under the same policy, with its pictures; it is long, so not everywhere
  if ((screen === "desk") !== (theme === "light")) {
    await page.close();
    continue;
  }
  await page.evaluate(() => { location.hash = "reports"; });
  await page.waitForSelector("#tables a[href^='/reports/']");
  await Promise.all([page.waitForNavigation(), page.evaluate(() => document.querySelector("#tables a[href^='/reports/']").click())]);
  await look(page, `report, ${screen}, ${theme}`);
  const drawn = await page.evaluate(() => [...document.querySelectorAll("svg.fig")].filter((svg) => svg.clientWidth > 0).length);
  hold(`report, ${screen}`, drawn > 0, "no picture is shown");
  const styled = await page.evaluate(() => getComputedStyle(document.querySelector("main")).maxWidth);
  hold(`report, ${screen}`, styled === "848px", `the style is not applied: ${styled}`);
  if (pictures) await page.screenshot({ path: `${pictures}/${screen}-${theme}-report.png` });
  await page.close();
}

// by keys: past the link to the figures and the button to the second view
const page = await open(1280, 900, "light");
for (let tab = 0; tab < 4; tab += 1) await page.keyboard.press("Tab");
await page.keyboard.press("Enter");
await page.waitForFunction(() => location.hash === "#clients" && document.activeElement.id === "view-title");
// sorted by a heading, which keeps the focus while the table is drawn again
await page.waitForSelector("th button");
await page.focus("th:nth-child(2) button");
await page.keyboard.press("Enter");
await page.waitForSelector("th:nth-child(2)[aria-sort=descending]");
await new Promise((done) => setTimeout(done, 2500));
hold("clients", await page.evaluate(() => document.activeElement.closest("th")?.ariaSort === "descending"), "the heading lost the focus");

if (token) {
  await page.evaluate(() => { location.hash = "settings"; });
  const change = async (token) => {
    await page.$eval("#token", (input) => { input.value = ""; });
    await page.type("#token", token);
    await page.keyboard.press("Enter");
    const input = "input[aria-label='new value of max-read']";
    await page.waitForSelector(input);
    // in one step: a table that is drawn again takes away an input that has no focus
    await page.$eval(input, (input) => { input.focus(); input.value = ""; document.querySelector("#said").textContent = ""; });
    await page.keyboard.type("64K");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("#said").textContent !== "");
    return page.$eval("#said", (said) => said.textContent);
  };
  page.removeAllListeners("console");
  const refused = await change("0".repeat(32));
  hold("settings", refused.includes("not the token"), refused);
  await page.evaluate(() => document.activeElement.blur());
  const changed = await change(token);
  hold("settings", changed.includes("max-read: 64K"), changed);
}
if (process.env.PLAIN) {
  const plain = await browser.newPage();
  await plain.setViewport({ width: 1280, height: 900 });
  const shown = (id) => plain.$eval(id, (element) => element.checkVisibility());
  await plain.goto(process.env.PLAIN + "#settings");
  await plain.waitForFunction(() => document.querySelector("#elsewhere a") && document.querySelectorAll("#tables table").length > 0);
  hold("settings over http", await shown("#elsewhere") && !await shown("#token"), "asks for the token");
  const led = await plain.$eval("#elsewhere a", (link) => link.href);
  hold("settings over http", led === url + "#settings", "leads to " + led);
  await look(plain, "settings over http");
  if (pictures) await plain.screenshot({ path: `${pictures}/desk-light-settings-http.png` });
  // from the server's machine
  await plain.goto(process.env.PLAIN.replace(/\/\/[^:]*/, "//127.0.0.1") + "#settings");
  await plain.waitForSelector("#tables table");
  hold("settings on the server's machine", await shown("#token") && !await shown("#elsewhere"), "asks for no token");
}
await browser.close();
for (const finding of findings) console.log(finding);
console.log(findings.length === 0 ? `page: ${SCREENS.length} screens of ${VIEWS.length} views, no findings` : `page: ${findings.length} findings`);
process.exit(findings.length === 0 ? 0 : 1);
