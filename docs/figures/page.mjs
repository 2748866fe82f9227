// page.mjs URL REPORT FOLDER: pictures of the web page of a server and of one of its reports, page.png and report.png in FOLDER, after
// the page has collected figures for a minute. As tests/page/check.mjs, needs puppeteer-core below $NODE_PATH.
import { createRequire } from "node:module";
const require = createRequire(process.env.NODE_PATH + "/");
const puppeteer = require("puppeteer-core");

const [url, report, folder] = process.argv.slice(2);
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: ["--no-sandbox", "--disable-gpu"],
});
const page = await browser.newPage();
await page.setViewport({ width: 1280, height: 900 });
await page.goto(url);
await new Promise((done) => setTimeout(done, 62_000));
const height = await page.evaluate(() => Math.ceil(document.querySelector("footer").getBoundingClientRect().bottom));
await page.screenshot({ path: `${folder}/page.png`, clip: { x: 0, y: 0, width: 1280, height } });
await page.goto(`${url}reports/${report}`);
await page.screenshot({ path: `${folder}/report.png` });
await browser.close();
