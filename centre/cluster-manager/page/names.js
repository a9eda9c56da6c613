// The rules of names, as the services check them; here they are checked while somebody types.

const RESERVED = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "admin", "root", "krbtgt", "kadmin", "changepw"];

/** What is wrong with a cluster's name, or null. `taken` are the names of the others. */
export function clusterName(name, taken = []) {
  if (!name) return "A cluster needs a name.";
  if (!/^[A-Za-z]/.test(name)) return "A name begins with a letter from A to Z.";
  const other = name.match(/[^A-Za-z0-9_]/u);
  if (other) return `A name has letters, digits and underscores; “${other[0]}” is none of them.`;
  if (name.length > 31) return `A name has at most 31 characters; this one has ${name.length}.`;
  if (RESERVED.includes(name.toLowerCase())) return "This word means something to YAML or to the KDC. Choose another.";
  const twin = taken.find((known) => known.toLowerCase() === name.toLowerCase());
  return twin ? `There is a cluster ${twin} already.` : null;
}

/** What is wrong with a name of Kubernetes (RFC 1123 label), or null. */
export function label(name, what) {
  if (!name) return `${what} is needed.`;
  if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name)) return `${what} has lower-case letters, digits and hyphens, and neither begins nor ends with a hyphen.`;
  return name.length > 63 ? `${what} has at most 63 characters.` : null;
}

/** What is wrong with a key of a Secret, or null. */
export function secretKey(name) {
  return /^[-._a-zA-Z0-9]{1,253}$/.test(name) && name !== "." && name !== ".." ? null : "A key has letters, digits, hyphens, dots and underscores.";
}
