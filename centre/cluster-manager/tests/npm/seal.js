// Opens what sealed-secrets seals, in strict scope: {key, sealed, namespace, name} comes in, {text} goes out. The key is PEM, sealed is
// base64.
const { HybridDecrypt, getLabel } = require('@socialgouv/aes-gcm-rsa-oaep');
const { createPrivateKey, webcrypto } = require('crypto');

async function open({ key, sealed, namespace, name }) {
  const der = createPrivateKey(key).export({ type: 'pkcs8', format: 'der' });
  const algorithm = { name: 'RSA-OAEP', hash: 'SHA-256' };
  const privateKey = await webcrypto.subtle.importKey('pkcs8', der, algorithm, false, ['decrypt']);
  const bytes = Uint8Array.from(Buffer.from(sealed, 'base64'));
  const label = new TextEncoder().encode(getLabel({ scope: 'strict', namespace, name }));
  return { text: await HybridDecrypt(privateKey, bytes.buffer, label) };
}

const asked = JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8'));
open(asked).then((told) => process.stdout.write(JSON.stringify(told)));
