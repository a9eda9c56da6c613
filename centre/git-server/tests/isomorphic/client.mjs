// isomorphic-git as the page and the cluster manager of the original use it: clone, commit, push, fetch.
// node client.mjs URL USER PASSWORD DIRECTORY; prints the commit that it pushed.
import fs from "node:fs";
import path from "node:path";
import git from "isomorphic-git";
import http from "isomorphic-git/http/node";

const [url, username, password, dir] = process.argv.slice(2);
const common = { fs, http, dir, url, onAuth: () => ({ username, password }), onAuthFailure: () => ({ cancel: true }) };
const author = { name: "test", email: "test@example.org" };

// An empty repository cannot be cloned by isomorphic-git without naming its branch.
await git.init({ fs, dir, defaultBranch: "main" });
await git.addRemote({ fs, dir, remote: "origin", url });
const { refs } = await git.getRemoteInfo({ http, url, onAuth: common.onAuth });
if (refs?.heads) throw new Error(`a new repository has branches: ${JSON.stringify(refs)}`);

fs.writeFileSync(path.join(dir, "values.yaml"), "name: Nord\n");
await git.add({ fs, dir, filepath: "values.yaml" });
const commit = await git.commit({ fs, dir, message: "first", author });
const pushed = await git.push({ ...common, remote: "origin", ref: "main" });
if (!pushed.ok) throw new Error(`refused: ${JSON.stringify(pushed)}`);

const second = path.join(dir, "second");
await git.clone({ ...common, dir: second, singleBranch: true, depth: 1 });
const head = await git.resolveRef({ fs, dir: second, ref: "HEAD" });
if (head !== commit) throw new Error(`cloned ${head}, pushed ${commit}`);
if (fs.readFileSync(path.join(second, "values.yaml"), "utf8") !== "name: Nord\n") throw new Error("another file");
console.log(commit);
