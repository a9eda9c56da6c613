// Opens and makes what sealed-secrets seals: {open: {key, sealed, label}} gives {text}, {seal: {certificate, text, namespace, name}}
// gives {sealed}. Keys are PKCS#8 PEM, bytes are base64.
const { HybridDecrypt, HybridEncrypt, pemPublicKeyToCryptoKey } = require('@socialgouv/aes-gcm-rsa-oaep');
const { createPrivateKey, webcrypto } = require('crypto');

async function open({ key, sealed, label }) {
  const der = createPrivateKey(key).export({ type: 'pkcs8', format: 'der' });
  const hash = { name: 'RSA-OAEP', hash: 'SHA-256' };
  const privateKey = await webcrypto.subtle.importKey('pkcs8', der, hash, false, ['decrypt']);
  const bytes = Uint8Array.from(Buffer.from(sealed, 'base64'));
  return { text: await HybridDecrypt(privateKey, bytes.buffer, new TextEncoder().encode(label)) };
}

async function seal({ certificate, text, label }) {
  const publicKey = await pemPublicKeyToCryptoKey(certificate);
  return { sealed: Buffer.from(await HybridEncrypt(publicKey, text, new TextEncoder().encode(label))).toString('base64') };
}

const asked = JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8'));
(asked.open ? open(asked.open) : seal(asked.seal)).then((told) => process.stdout.write(JSON.stringify(told)));
