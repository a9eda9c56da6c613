//! Policy digests of endorsement keys (*TCG EK Credential Profile* 2.5, appendix B.6).

use super::HashAlg;

const CC_POLICY_SECRET: u32 = 0x0000_0151;
const CC_POLICY_OR: u32 = 0x0000_0171;
const RH_ENDORSEMENT: u32 = 0x4000_000b;

/// B.6.5, "`PolicyC`": a `PolicyAuthorizeNV` of an index named under SHA-256. Never used here, but a branch of `PolicyB`.
const POLICY_C_SHA256: [u8; 32] = [
    0x37, 0x67, 0xe2, 0xed, 0xd4, 0x3f, 0xf4, 0x5a, 0x3a, 0x7e, 0x1e, 0xae, 0xfc, 0xef, 0x78, 0x64, 0x3d, 0xca, 0x96,
    0x46, 0x32, 0xe7, 0xaa, 0xd8, 0x2c, 0x67, 0x3a, 0x30, 0xd8, 0x63, 0x3f, 0xde,
];

/// B.6.5, "`PolicyC`" for SHA-384.
const POLICY_C_SHA384: [u8; 48] = [
    0xd6, 0x03, 0x2c, 0xe6, 0x1f, 0x2f, 0xb3, 0xc2, 0x40, 0xeb, 0x3c, 0xf6, 0xa3, 0x32, 0x37, 0xef, 0x2b, 0x6a, 0x16,
    0xf4, 0x29, 0x3c, 0x22, 0xb4, 0x55, 0xe2, 0x61, 0xcf, 0xfd, 0x21, 0x7a, 0xd5, 0xb4, 0x94, 0x7c, 0x2d, 0x73, 0xe6,
    0x30, 0x05, 0xee, 0xd2, 0xdc, 0x2b, 0x35, 0x93, 0xd1, 0x65,
];

/// `PolicyA`: `PolicySecret(TPM_RH_ENDORSEMENT)` with an empty policy reference.
pub fn policy_a(hash: HashAlg) -> Vec<u8> {
    // Part 3, section 23.4: "PolicyUpdate(TPM_CC_PolicySecret, authObject→Name, policyRef)", which hashes twice.
    let zero = vec![0; hash.size()];
    let first = hash.digest(&[&zero, &CC_POLICY_SECRET.to_be_bytes(), &RH_ENDORSEMENT.to_be_bytes()]);
    hash.digest(&[&first])
}

/// The branches of `PolicyB`, in order: `PolicyA` and `PolicyC`. No SHA-512 template is supported, so that has `PolicyA` alone.
pub fn policy_branches(hash: HashAlg) -> Vec<Vec<u8>> {
    let mut branches = vec![policy_a(hash)];
    match hash {
        HashAlg::Sha256 => branches.push(POLICY_C_SHA256.to_vec()),
        HashAlg::Sha384 => branches.push(POLICY_C_SHA384.to_vec()),
        HashAlg::Sha512 => {}
    }
    branches
}

/// `PolicyB`: `PolicyOR(PolicyA, PolicyC)`.
pub fn policy_b(hash: HashAlg) -> Vec<u8> {
    // Part 3, section 23.6: "policyDigest ≔ H(0…0 ‖ TPM_CC_PolicyOR ‖ digests)".
    let zero = vec![0; hash.size()];
    hash.digest(&[&zero, &CC_POLICY_OR.to_be_bytes(), &policy_branches(hash).concat()])
}
