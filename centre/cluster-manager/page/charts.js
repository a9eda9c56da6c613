// Which Helm charts there are, and what they are called.

import { APPLICATION } from "./uuids.js";

/** The charts' names by UUID. */
export async function chartsOf(session) {
  const uuids = (await session.send("config_db", "GET", `/v2/app/${APPLICATION.helmChartTemplate}/object`)) ?? [];
  const named = await Promise.all(
    uuids.map(async (uuid) => {
      const info = await session.send("config_db", "GET", `/v2/app/${APPLICATION.info}/object/${uuid}`);
      return [uuid, info?.name ?? uuid];
    }),
  );
  return new Map(named.sort(([, one], [, other]) => one.localeCompare(other)));
}
