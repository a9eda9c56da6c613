// Calls everything that the npm client has for the configuration database, and prints what came back, as JSON by step.
// Arguments: URL of the directory, user, password, then UUIDs: a class, another class, an application, three objects of the class,
// and one of nothing.
import { ServiceClient, UUIDs } from "@amrc-factoryplus/service-client";

const [directory_url, username, password, klass, other, app, x, y, z, nothing] = process.argv.slice(2);
const fplus = new ServiceClient({ directory_url, username, password });
const { ConfigDB } = fplus;
const seen = {};

async function step(name, does) {
    try {
        seen[name] = (await does()) ?? null;
    } catch (error) {
        seen[name] = { failed: error.status ?? String(error) };
    }
}
const done = promise => promise.then(() => "done");
const sorted = list => [...list].sort();

await step("ping", async () => (await ConfigDB.ping()).service);
await step("version", () => ConfigDB.version_satisfies(">=2"));

await step("nothing yet", () => ConfigDB.get_config(app, x));
await step("nothing and no etag", () => ConfigDB.get_config_with_etag(app, x));
await step("no etag yet", () => ConfigDB.get_config_etag(app, x));
await step("put", () => done(ConfigDB.put_config(app, x, { name: "North", hosts: ["a", "b"], n: 1 })));
await step("put again", () => done(ConfigDB.put_config(app, x, { name: "North", hosts: ["a", "b"], n: 1 })));
await step("get", () => ConfigDB.get_config(app, x));
await step("etag", async () => {
    const [, etag] = await ConfigDB.get_config_with_etag(app, x);
    return typeof etag == "string" && etag == await ConfigDB.get_config_etag(app, x);
});
await step("put changes the etag", async () => {
    const before = await ConfigDB.get_config_etag(app, x);
    await ConfigDB.put_config(app, x, { name: "North", hosts: ["a", "b"], n: 2 });
    return before != await ConfigDB.get_config_etag(app, x);
});
await step("put of no application", () => ConfigDB.put_config(nothing, x, {}));
for (const value of [0, false, "", null])
    await step(`put ${JSON.stringify(value)}`, async () => {
        await ConfigDB.put_config(app, y, value);
        const [read, etag] = await ConfigDB.get_config_with_etag(app, y);
        return read === value && etag != undefined;
    });
await step("patch of no object", () => ConfigDB.patch_config(app, y, "merge", { a: 1 }));
await step("patch", async () => {
    await ConfigDB.patch_config(app, x, "merge", { n: null, spec: { a: 1 } });
    return ConfigDB.get_config(app, x);
});
await step("patch that creates", () => done(ConfigDB.patch_config(app, z, "merge", { name: "South", path: "a/b" })));
await step("another patch", () => ConfigDB.patch_config(app, x, "json", []));
await step("list", async () => sorted(await ConfigDB.list_configs(app)));
await step("list of no application", () => ConfigDB.list_configs(nothing));
await step("all", async () => Object.fromEntries(await ConfigDB.get_all_configs(app)));
await step("delete", () => done(ConfigDB.delete_config(app, y)));
await step("delete again", () => ConfigDB.delete_config(app, y));

await step("search", async () => sorted(await ConfigDB.search({ app, query: { path: undefined } })));
await step("search by class", () => ConfigDB.search({ app, klass, query: { name: "South" } }));
await step("search by another class", () => ConfigDB.search({ app, klass: other, query: { name: "South" } }));
await step("search with results", () => ConfigDB.search(app, { name: "South" }, { where: "path", none: "none" }));
await step("search for what is deep", () => ConfigDB.search({ app, query: { "spec.a": 1 } }));
await step("search by no path", () => ConfigDB.search({ app, query: { "a b": 1 } }));
await step("resolve", () => ConfigDB.resolve({ app, query: { name: "North" } }));
await step("resolve none", () => ConfigDB.resolve({ app, query: { name: "West" } }));
await step("resolve two", async () => {
    try {
        return await ConfigDB.resolve({ app, query: {} });
    } catch (error) {
        return error.message.startsWith("More than one result");
    }
});

let made;
await step("create", async () => (made = await ConfigDB.create_object(klass)).length);
await step("create by uuid", async () => (await ConfigDB.create_object(klass, made)) === made);
await step("create exclusively", async () => {
    try {
        return await ConfigDB.create_object(klass, made, true);
    } catch (error) {
        return error.message.startsWith("Exclusive create");
    }
});
await step("create of no class", () => ConfigDB.create_object(nothing));
await step("mark deleted", async () => {
    await ConfigDB.mark_object_deleted(made);
    return (await ConfigDB.get_config(UUIDs.App.Registration, made)).deleted;
});
await step("create what is deleted", async () => {
    await ConfigDB.create_object(klass, made);
    return (await ConfigDB.get_config(UUIDs.App.Registration, made)).deleted;
});
await step("delete object", () => done(ConfigDB.delete_object(made)));
await step("delete object again", () => ConfigDB.delete_object(made));
await step("delete what is in use", () => ConfigDB.delete_object(klass));

await step("members", async () => sorted(await ConfigDB.class_members(klass)));
await step("direct members", async () => sorted(await ConfigDB.class_direct_members(klass)));
await step("members of no class", () => ConfigDB.class_members(nothing));
await step("add member", () => done(ConfigDB.class_add_member(other, x)));
await step("add member again", () => done(ConfigDB.class_add_member(other, x)));
await step("has member", () => ConfigDB.class_has_member(other, x));
await step("has direct member", () => ConfigDB.class_has_direct_member(other, x));
await step("has no member", () => ConfigDB.class_has_member(other, y));
await step("has no direct member", () => ConfigDB.class_has_direct_member(other, y));
await step("add subclass", () => done(ConfigDB.class_add_subclass(klass, other)));
await step("subclasses", async () => sorted(await ConfigDB.class_subclasses(klass)));
await step("direct subclasses", () => ConfigDB.class_direct_subclasses(klass));
await step("has subclass", () => ConfigDB.class_has_subclass(klass, other));
await step("has direct subclass", () => ConfigDB.class_has_direct_subclass(klass, other));
await step("has no subclass", () => ConfigDB.class_has_subclass(other, klass));
await step("has no direct subclass", () => ConfigDB.class_has_direct_subclass(other, klass));
await step("remove subclass", () => done(ConfigDB.class_remove_subclass(klass, other)));
await step("subclass is gone", () => ConfigDB.class_has_subclass(klass, other));
await step("remove member", () => done(ConfigDB.class_remove_member(other, x)));
await step("member is gone", () => ConfigDB.class_has_member(other, x));
await step("remove from its primary class", () => ConfigDB.class_remove_member(klass, x));
await step("add member of no class", () => ConfigDB.class_add_member(nothing, x));

await step("dump", async () => {
    await ConfigDB.load_dump({
        service: UUIDs.Service.ConfigDB,
        version: 2,
        objects: { [UUIDs.Class.App]: { [UUIDs.App.Info]: {} }, [klass]: { [nothing]: { name: "loaded" } } },
        configs: { [app]: { [nothing]: { loaded: true } } },
    });
    return [await ConfigDB.get_config(app, nothing), await ConfigDB.get_config(UUIDs.App.Info, nothing)];
});
await step("dump of another service", () => ConfigDB.load_dump({ service: UUIDs.Service.Directory, version: 2 }));

// What the newer client is made of: a WebSocket of this one, and the protocol over it.
await step("websocket", async () => {
    const socket = await ConfigDB.websocket("notify/v2");
    const updates = [];
    let heard = () => {};
    socket.addEventListener("message", message => { updates.push(JSON.parse(message.data)); heard(); });
    const next = async () => {
        while (updates.length == 0) await new Promise(resolve => (heard = resolve));
        return updates.shift();
    };
    try {
        socket.send(JSON.stringify({ uuid: nothing, method: "WATCH", request: { url: `v2/app/${app}/object/${x}` } }));
        const first = await next();
        await ConfigDB.put_config(app, x, "changed");
        const change = await next();
        socket.send(JSON.stringify({ uuid: nothing, method: "CLOSE" }));
        const closed = await next();
        return [first.status, first.response.status, change.status, change.response.body, closed.status];
    } finally {
        socket.close();
    }
});
// Deprecated: over Sparkplug, with a package that the client does not depend on.
await step("watcher", () => ConfigDB.watcher());

console.log(JSON.stringify(seen));
