// Calls everything of Auth and Directory that the npm client has, and prints what came back, as JSON by step.
// Arguments: URL of the directory, user, password, UUIDs of a principal, a permission, a target and a service.
import { ServiceClient, UUIDs } from "@amrc-factoryplus/service-client";

const [directory_url, username, password, principal, permission, target, service] = process.argv.slice(2);
const fplus = new ServiceClient({ directory_url, username, password });
const seen = {};

async function step(name, does) {
    try {
        seen[name] = (await does()) ?? null;
    } catch (error) {
        seen[name] = { failed: error.status ?? String(error) };
    }
}

const { Auth, Directory } = fplus;
const name = "op1flux/North@R";
const grant = { principal, permission, target, plural: false };

await step("auth ping", async () => (await Auth.ping()).service);
await step("directory ping", async () => (await Directory.ping()).service);
await step("version", () => Auth.version_satisfies(">=2"));
await step("auth url", () => Directory.get_service_url(UUIDs.Service.Authentication));
await step("unknown url", () => Directory.get_service_url(principal));
await step("whoami", () => Auth.whoami());
await step("whoami uuid", () => Auth.whoami_uuid());

await step("add", () => Auth.add_principal(principal, name));
await step("add again", () => Auth.add_principal(principal, name));
await step("add another", () => Auth.add_principal(principal, "other@R"));
await step("identity", () => Auth.get_identity(principal, "kerberos"));
await step("resolve", () => Auth.resolve_principal(name));
await step("resolve unknown", () => Auth.resolve_principal("unknown@R"));
await step("principals", async () => (await Auth.list_principals()).includes(principal));

await step("grant", async () => { seen.uuid = await Auth.add_grant(grant); return true; });
await step("grant again", async () => (await Auth.add_grant(grant)) === seen.uuid);
await step("find", async () => (await Auth.find_grants({ principal }))[0] === seen.uuid);
await step("read", () => Auth.get_grant(seen.uuid));
await step("all", async () => (await Auth.get_all_grants()).some(g => g.uuid === seen.uuid));
await step("allowed", () => Auth.check_acl(name, permission, target, false));
await step("allowed by uuid", () => Auth.check_acl({ uuid: principal }, permission, target, false));
await step("not allowed", () => Auth.check_acl(name, permission, service, true));
await step("nobody", () => Auth.check_acl("unknown@R", permission, target, true));
await step("set", async () => {
    const { uuid, ...rest } = await Auth.get_grant(seen.uuid);
    await Auth.set_grant(uuid, { ...rest, target: service });
    return (await Auth.get_grant(uuid)).target;
});
await step("end", async () => { await Auth.delete_grant(seen.uuid); return true; });
await step("end again", () => Auth.delete_grant(seen.uuid));
await step("delete", () => Auth.delete_principal(principal));
await step("delete again", () => Auth.delete_principal(principal));
await step("auth dump", async () => {
    await Auth.load_dump({
        service: UUIDs.Service.Authentication,
        version: 2,
        identities: { [principal]: { kerberos: name } },
        grants: { [principal]: { [permission]: { [target]: "both" } } },
    });
    return Auth.resolve_principal(name);
});

await step("advertise", async () => { await Directory.register_service_url(service, "http://there.example"); return true; });
await step("advertised", () => Directory.get_service_info(service));
await step("advertise another", () => Directory.register_service_url(principal, "http://there.example"));
await step("device", () => Directory.get_device_info(principal));
await step("device address", () => Directory.get_device_address(principal));
await step("directory dump", async () => {
    const advertisements = [{ service: principal, url: "http://elsewhere.example" }];
    await Directory.load_dump({ service: UUIDs.Service.Directory, version: 1, advertisements });
    return Directory.get_service_url(principal);
});

console.log(JSON.stringify(seen));
