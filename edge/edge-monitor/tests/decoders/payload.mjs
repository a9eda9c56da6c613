// Decodes payloads of Sparkplug B, given in hexadecimal, and encodes a command for a rebirth: npm's sparkplug-payload, unmodified.
import sparkplug from "sparkplug-payload";

const { encodePayload, decodePayload } = sparkplug.get("spBv1.0");
// Numbers of 64 bits are objects.
const plain = (value) => (value?.toNumber ? value.toNumber() : value);
const decoded = process.argv.slice(2).map((hex) => {
  const { timestamp, seq, uuid, metrics } = decodePayload(Buffer.from(hex, "hex"));
  return {
    timestamp: plain(timestamp),
    seq: plain(seq),
    uuid,
    metrics: metrics.map((metric) => ({ ...metric, value: plain(metric.value) })),
  };
});
const rebirth = { timestamp: 1000, metrics: [{ name: "Node Control/Rebirth", type: "Boolean", value: true }] };
const command = Buffer.from(encodePayload(rebirth)).toString("hex");
console.log(JSON.stringify({ decoded, command }));
