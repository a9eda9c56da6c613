// Fills templates with json-templates: an array of {template, parameters} comes in, an array of {value} goes out; where there is no
// value, the object is empty.
const parse = require('json-templates');
const cases = JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8'));
process.stdout.write(JSON.stringify(cases.map((one) => ({ value: parse(one.template)(one.parameters) }))));
