// Opens and makes what sealed-secrets seals: {open: {key, sealed, namespace, name}} gives {text}, {seal: {certificate, text, namespace,
// name}} gives {sealed}. Key and certificate are PEM, sealed is base64; the scope is strict.
const { HybridDecrypt, encryptValue, getLabel } = require('@socialgouv/aes-gcm-rsa-oaep');
const { createPrivateKey, webcrypto } = require('crypto');

async function open({ key, sealed, namespace, name }) {
  const der = createPrivateKey(key).export({ type: 'pkcs8', format: 'der' });
  const algorithm = { name: 'RSA-OAEP', hash: 'SHA-256' };
  const privateKey = await webcrypto.subtle.importKey('pkcs8', der, algorithm, false, ['decrypt']);
  const bytes = Uint8Array.from(Buffer.from(sealed, 'base64'));
  const label = new TextEncoder().encode(getLabel({ scope: 'strict', namespace, name }));
  return { text: await HybridDecrypt(privateKey, bytes.buffer, label) };
}

async function seal({ certificate, text, namespace, name }) {
  return { sealed: await encryptValue({ pemKey: certificate, scope: 'strict', namespace, name, value: text }) };
}

const asked = JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8'));
(asked.open ? open(asked.open) : seal(asked.seal)).then((told) => process.stdout.write(JSON.stringify(told)));
