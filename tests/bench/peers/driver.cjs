// The twin of driver.py for a queue of Node: `node driver.cjs MODULE`.
"use strict";

const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");

const queue = require(`./queues/${process.argv[2]}.cjs`);
const [ARGS, KWARGS] = JSON.parse(process.env.EMQ_BENCH_ARGUMENTS);
const RATE = 100;

const seconds = async (work) => {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1000;
};

const verbs = {
  versions: async () => ({
    bullmq: require("bullmq/package.json").version,
    ioredis: require("ioredis/package.json").version,
    node: process.versions.node,
  }),
  one: (count) =>
    seconds(async () => {
      for (let i = 0; i < count; i++) await queue.enqueue("nothing", ARGS, KWARGS);
    }),
  bulk: (count) => seconds(() => queue.enqueueBulk(count, "nothing", ARGS, KWARGS)),
  report: async (count) => {
    let due = performance.now();
    for (let i = 0; i < count; i++) {
      await queue.enqueue("report", [(performance.timeOrigin + performance.now()) / 1000], {});
      due += 1000 / RATE;
      await sleep(Math.max(0, due - performance.now()));
    }
    return null;
  },
  unfinished: () => queue.unfinished(),
};

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, number] = line.split(" ");
    console.log(JSON.stringify(await verbs[verb](Number(number))));
  }
  process.exit();
})();
