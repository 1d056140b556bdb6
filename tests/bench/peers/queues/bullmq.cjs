// BullMQ for Node, with ioredis. Run as a program it is the worker.
"use strict";

const fs = require("node:fs");
const { Queue, Worker } = require("bullmq");

const { hostname: host, port } = new URL(process.env.EMQ_BENCH_REDIS_URL);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue("bench", { connection });

const handlers = {
  nothing: async () => {},
  report: async ({ data }) => {
    const delay = (performance.timeOrigin + performance.now()) / 1000 - data.args[0];
    fs.writeFileSync(process.env.EMQ_BENCH_REPORTS, `${delay.toFixed(6)}\n`);
  },
};

// Enqueue one job.
const enqueue = (handler, args, kwargs) => queue.add(handler, { args, kwargs });

// Enqueue `count` jobs, a thousand to a call.
const enqueueBulk = async (count, handler, args, kwargs) => {
  for (let left = count; left > 0; left -= 1000) {
    const batch = Array.from({ length: Math.min(left, 1000) }, () => ({ name: handler, data: { args, kwargs } }));
    await queue.addBulk(batch);
  }
};

// Return how many jobs wait or run.
const unfinished = async () => {
  const counts = await queue.getJobCounts("waiting", "active", "prioritized", "delayed");
  return Object.values(counts).reduce((sum, one) => sum + one, 0);
};

module.exports = { enqueue, enqueueBulk, unfinished };

if (require.main === module) {
  const options = JSON.parse(process.env.EMQ_BENCH_OPTIONS);
  new Worker("bench", (job) => handlers[job.name](job), { connection, ...options });
}
