// ajv on the dump of a file, the argument: one line of JSON, a list of what it finds wrong. Each schema must compile, each entry of its
// application must be valid, and each of `bad` must not be.
import fs from "node:fs";
import Ajv from "ajv/dist/2020.js";

const { configs, schemaApplication, bad } = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const ajv = new Ajv({ allErrors: true, strict: false, validateFormats: false });
const wrong = [];
let checked = 0;
for (const [application, schema] of Object.entries(configs[schemaApplication])) {
  const validate = ajv.compile(schema);
  for (const [object, entry] of Object.entries(configs[application] ?? {})) {
    checked += 1;
    if (!validate(entry)) wrong.push({ application, object, errors: ajv.errorsText(validate.errors) });
  }
  for (const entry of bad[application] ?? []) {
    checked += 1;
    if (validate(entry)) wrong.push({ application, taken: entry });
  }
}
console.log(JSON.stringify({ checked, wrong }));
