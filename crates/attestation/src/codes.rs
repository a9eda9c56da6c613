//! The table of reason codes. Codes are forever: a code may be added, never renamed, never given another meaning.

use latchkey_reason::Reason;

use crate::refusal::{Blame, CoarseReason};

macro_rules! reason_codes {
    ($($(#[doc = $doc:literal])* $(#[cfg(feature = $feature:literal)])? $variant:ident = $code:literal, $blame:ident, $coarse:ident, $remedy:literal;)+) => {
        /// Every reason to refuse, each with a stable kebab-case code. What only a feature can say costs nobody else its words.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ReasonCode {
            $($(#[doc = $doc])* $(#[cfg(feature = $feature)])? $variant,)+
        }

        impl ReasonCode {
            /// Every code, in the order of the checks.
            pub const ALL: &[Self] = &[$($(#[cfg(feature = $feature)])? Self::$variant,)+];

            /// The stable kebab-case string.
            pub const fn as_str(self) -> &'static str {
                match self { $($(#[cfg(feature = $feature)])? Self::$variant => $code,)+ }
            }

            /// Who has to act.
            pub const fn blame(self) -> Blame {
                match self { $($(#[cfg(feature = $feature)])? Self::$variant => Blame::$blame,)+ }
            }

            /// What the peer may be told.
            pub const fn coarse(self) -> CoarseReason {
                match self { $($(#[cfg(feature = $feature)])? Self::$variant => CoarseReason::$coarse,)+ }
            }

            /// One sentence that names the fix.
            pub const fn remedy(self) -> &'static str {
                match self { $($(#[cfg(feature = $feature)])? Self::$variant => $remedy,)+ }
            }
        }
    };
}

reason_codes! {
    // Reading what the peer sent.
    /// The identity is no JSON of the closed schema, or a field exceeds its size.
    IdentityMalformed = "identity-malformed", Peer, EvidenceMalformed, "run the same release on both sides";
    /// The evidence is no JSON of the closed schema, or a field exceeds its size.
    EvidenceMalformed = "evidence-malformed", Peer, EvidenceMalformed, "run the same release on both sides";

    /// The bytes are no attestation report of SEV-SNP.
    SnpReportMalformed = "snp-report-malformed", Peer, EvidenceMalformed, "give the 1184 bytes of the report as the guest's secure processor made them, without what stands around it";

    /// The policy demands what a SEV-SNP processor says, and no report came.
    SnpReportMissing = "snp-report-missing", Platform, TeeNotTrusted, "boot the image as a SEV-SNP guest whose kernel offers reports (configfs-tsm or /dev/sev-guest), or take the section `snp` out of the policy";
    /// The policy demands reports, and this verifier was given nothing to verify them by.
    SnpNotVerifiable = "snp-not-verifiable", Operator, VerifierUnavailable, "give the verifier collateral: `collateral` in the join service's configuration, or `latchkey collateral install` where the cluster is in its API server; --collateral on the command line";
    /// The report has something set where its version has nothing.
    SnpReportReserved = "snp-report-reserved", Peer, EvidenceMalformed, "use a release of this program that knows what this firmware reports: what is new there may change what the rest means";
    /// The report, or its certificate, is of a processor that this program does not know.
    SnpProductUnknown = "snp-product-unknown", Platform, TeeNotTrusted, "run the guest on Milan, Genoa, Bergamo, Siena or Turin, or use a release of this program that knows the processor";
    /// The host's table of certificates cannot be read.
    SnpCertificateTableMalformed = "snp-certificate-table-malformed", Peer, EvidenceMalformed, "have the host give the guest a certificate table as AMD 56421 describes it, or none";

    // The certificate of a secure processor's key.
    /// Neither the host nor the collateral has a certificate for the key that signed.
    #[cfg(feature = "processors")]
    SnpCertificateMissing = "snp-certificate-missing", Platform, TeeNotTrusted, "put the certificate of this chip and firmware into the collateral, or have the host give it to its guests";
    /// The certificate is no X.509, or lacks what AMD puts into it.
    #[cfg(feature = "processors")]
    SnpCertificateMalformed = "snp-certificate-malformed", Platform, TeeNotTrusted, "fetch the certificate from AMD's key distribution service again";
    /// The certificate is of the other kind of key, or signed by the other kind's authority.
    #[cfg(feature = "processors")]
    SnpCertificateOfAnotherKind = "snp-certificate-of-another-kind", Peer, TeeNotTrusted, "give a VCEK's certificate for a report that a VCEK signed, and a VLEK's for one that a VLEK signed";
    /// The certificate's product is not the report's.
    #[cfg(feature = "processors")]
    SnpCertificateOfAnotherProduct = "snp-certificate-of-another-product", Peer, TeeNotTrusted, "give the certificate of the processor that made the report";
    /// The certificate is of another chip.
    #[cfg(feature = "processors")]
    SnpCertificateOfAnotherChip = "snp-certificate-of-another-chip", Peer, TeeNotTrusted, "give the certificate of the chip that made the report";
    /// The certificate is for other firmware versions than the report says.
    #[cfg(feature = "processors")]
    SnpCertificateOfAnotherTcb = "snp-certificate-of-another-tcb", Peer, TeeNotTrusted, "give the certificate for the report's `REPORTED_TCB`: after an update of the firmware the key, and its certificate, are others";
    /// No chain to an authority of AMD that this program knows.
    #[cfg(feature = "processors")]
    SnpCertificateUntrusted = "snp-certificate-untrusted", Platform, TeeNotTrusted, "give a certificate that AMD issued, and AMD's chain for the product in the collateral";
    /// The certificate is not valid yet.
    #[cfg(feature = "processors")]
    SnpCertificateNotYetValid = "snp-certificate-not-yet-valid", Platform, TeeNotTrusted, "correct the verifier's clock: AMD issues no certificate for the future";
    /// The certificate, or its authority's, has expired.
    #[cfg(feature = "processors")]
    SnpCertificateExpired = "snp-certificate-expired", Platform, TeeNotTrusted, "correct the verifier's clock, or fetch the certificate again";
    /// AMD revoked the authority that issued the certificate.
    #[cfg(feature = "processors")]
    SnpCertificateRevoked = "snp-certificate-revoked", Platform, TeeNotTrusted, "fetch the chain and the certificate again: AMD issues them under a new authority";
    /// There is no list of what AMD revoked for this product.
    #[cfg(feature = "processors")]
    SnpRevocationListMissing = "snp-revocation-list-missing", Operator, VerifierUnavailable, "put AMD's revocation list for the product into the collateral";
    /// The list of what AMD revoked is too old to say anything.
    #[cfg(feature = "processors")]
    SnpRevocationListExpired = "snp-revocation-list-expired", Operator, VerifierUnavailable, "fetch AMD's revocation list again, or correct the verifier's clock";
    /// The report's signature does not verify under the certificate's key.
    #[cfg(feature = "processors")]
    SnpSignatureInvalid = "snp-signature-invalid", Peer, EvidenceRejected, "send the report as the secure processor made it, with its own certificate";
    /// The report was made for something else.
    #[cfg(feature = "processors")]
    SnpReportDataMismatch = "snp-report-data-mismatch", Peer, EvidenceRejected, "ask for a report over the binding of this very connection: if that was done, something relays or replays evidence";

    // A SEV-SNP processor vouches for the TPM.
    /// The policy trusts TPMs of SVSMs, and the report came without the SVSM's services manifest.
    SnpSvsmManifestMissing = "snp-svsm-manifest-missing", Platform, TpmNotTrusted, "boot the image in a SEV-SNP guest with an SVSM that has the TPM, and with Linux 6.11 or newer, or take its TPM by another rule than `ek-svsm`";
    /// An SVSM's services manifest came, and the policy has no rule for it.
    SnpSvsmManifestUnexpected = "snp-svsm-manifest-unexpected", Peer, TpmNotTrusted, "send the kind of report that the challenge asks for, or trust the TPMs of SVSMs with the policy's rule `ek-svsm`";
    /// The SVSM's services manifest is not the endorsement key that was shown.
    #[cfg(feature = "processors")]
    SnpSvsmManifestOfAnotherKey = "snp-svsm-manifest-of-another-key", Peer, TpmNotTrusted, "show the endorsement key that the SVSM's services manifest names (`latchkey.ek` in the image says of which template): another TPM than the SVSM's, or another of its keys, answered";
    /// The policy trusts TPMs of Azure's paravisor, and the report came without its claims.
    SnpHclClaimsMissing = "snp-hcl-claims-missing", Platform, TpmNotTrusted, "boot the image in a confidential machine (SEV-SNP) of Azure's, or take its TPM by another rule than `ak-azure-hcl`";
    /// Claims of Azure's paravisor came, and the policy has no rule for them.
    SnpHclClaimsUnexpected = "snp-hcl-claims-unexpected", Peer, TpmNotTrusted, "send the kind of report that the challenge asks for, or trust the TPMs of Azure's paravisor with the policy's rule `ak-azure-hcl`";
    /// What the TPM has of Azure's paravisor is no SEV-SNP report with claims.
    SnpHclReportMalformed = "snp-hcl-report-malformed", Platform, EvidenceMalformed, "boot the image in a confidential machine of Azure's, and leave the TPM's index 0x01400001 to its paravisor";
    /// What the TPM has of Azure's paravisor is about Intel TDX.
    SnpHclReportOfTdx = "snp-hcl-report-of-tdx", Platform, TpmNotTrusted, "boot the image in a confidential machine of Azure's with SEV-SNP, or take the TPM of this one, which has Intel TDX, by another rule than `ak-azure-hcl`";
    /// The paravisor's claims cannot be read, or name no attestation key.
    #[cfg(feature = "processors")]
    SnpHclClaimsMalformed = "snp-hcl-claims-malformed", Peer, EvidenceMalformed, "send the claims as the paravisor left them in the TPM, to the byte";
    /// The report is not over the claims.
    #[cfg(feature = "processors")]
    SnpHclClaimsMismatch = "snp-hcl-claims-mismatch", Peer, EvidenceRejected, "send report and claims as the paravisor left them in the TPM together: REPORT_DATA is the SHA-256 of these claims, then zeros";
    /// The paravisor's claims name another attestation key than the one that quotes.
    #[cfg(feature = "processors")]
    SnpHclClaimsOfAnotherKey = "snp-hcl-claims-of-another-key", Peer, TpmNotTrusted, "let the machine quote with the paravisor's key (`latchkey.ak=azure-hcl` in its image)";
    /// The launch is none that the trust rule names.
    #[cfg(feature = "processors")]
    SnpLaunchNotTrustedWithTpm = "snp-launch-not-trusted-with-tpm", Platform, TpmNotTrusted, "launch the guest with code at VMPL 0 that the trust rule's `launch_sha384` names, or add this launch if that code is to be trusted with the machines' TPMs";

    // Policy: a SEV-SNP guest.
    /// The policy denies this chip.
    #[cfg(feature = "processors")]
    SnpChipDenied = "snp-chip-denied", Operator, TeeNotTrusted, "remove the chip from `snp.denied_chips` if its guests are to be admitted again";
    /// The policy lists the chips that may be it, and not this one.
    #[cfg(feature = "processors")]
    SnpChipUnknown = "snp-chip-unknown", Operator, TeeNotTrusted, "add the chip to `snp.chips` if it is a machine of yours";
    /// The policy does not take this kind of key.
    #[cfg(feature = "processors")]
    SnpKeyRefused = "snp-key-refused", Operator, TeeNotTrusted, "have the host use the kind of key that `snp.keys` names, or name this one";
    /// The policy does not name the provider whose key signed.
    #[cfg(feature = "processors")]
    SnpProviderRefused = "snp-provider-refused", Operator, TeeNotTrusted, "add the provider to `snp.providers` if its machines may run your guests";
    /// The policy has no floor for this product.
    #[cfg(feature = "processors")]
    SnpProductRefused = "snp-product-refused", Operator, TeeNotTrusted, "run the guest on a product that `snp.tcb_floor` names, or give this one a floor";
    /// Firmware or microcode is older than the policy's floor.
    #[cfg(feature = "processors")]
    SnpTcbTooOld = "snp-tcb-too-old", Platform, TeeNotTrusted, "update the host's firmware and microcode, commit the update, and launch the guest anew";
    /// The host may still undo an update of its firmware.
    #[cfg(feature = "processors")]
    SnpFirmwareProvisional = "snp-firmware-provisional", Platform, TeeNotTrusted, "commit the firmware on the host (SNP_COMMIT), or let `snp.allow` say `provisional-firmware`";
    /// The guest's host may read and write its memory.
    #[cfg(feature = "processors")]
    SnpDebugAllowed = "snp-debug-allowed", Platform, TeeNotTrusted, "launch the guest without DEBUG in its policy";
    /// A migration agent may move the guest.
    #[cfg(feature = "processors")]
    SnpMigrationAllowed = "snp-migration-allowed", Platform, TeeNotTrusted, "launch the guest without MIGRATE_MA in its policy, or let `snp.allow` say `migration`";
    /// The guest may run where threads share a core.
    #[cfg(feature = "processors")]
    SnpSmtAllowed = "snp-smt-allowed", Platform, TeeNotTrusted, "launch the guest without SMT in its policy, or let `snp.allow` say `smt`";
    /// The guest's memory may lie behind CXL.
    #[cfg(feature = "processors")]
    SnpCxlAllowed = "snp-cxl-allowed", Platform, TeeNotTrusted, "launch the guest without CXL_ALLOW in its policy, or let `snp.allow` say `cxl`";
    /// The guest may run on several sockets.
    #[cfg(feature = "processors")]
    SnpNotSingleSocket = "snp-not-single-socket", Platform, TeeNotTrusted, "launch the guest with SINGLE_SOCKET in its policy";
    /// The guest takes older firmware interfaces than the policy.
    #[cfg(feature = "processors")]
    SnpAbiTooOld = "snp-abi-too-old", Platform, TeeNotTrusted, "launch the guest with a policy whose ABI version is at least `snp.minimum_abi`";
    /// The host can see ciphertext of the guest's memory.
    #[cfg(feature = "processors")]
    SnpCiphertextVisible = "snp-ciphertext-visible", Platform, TeeNotTrusted, "turn ciphertext hiding on in the host's firmware, and launch the guest with it in its policy";
    /// The machine's memory was not looked through for aliases.
    #[cfg(feature = "processors")]
    SnpAliasesUnchecked = "snp-aliases-unchecked", Platform, TeeNotTrusted, "update the host's firmware to one that checks memory for aliases";
    /// The IOMMU's own writes may reach the memory of guests.
    #[cfg(feature = "processors")]
    SnpIommuWritesUnsafe = "snp-iommu-writes-unsafe", Platform, TeeNotTrusted, "update the host's firmware to one that keeps the IOMMU's writes from guests (Turin)";
    /// The processor says of its machine what this program has no name for.
    #[cfg(feature = "processors")]
    SnpPlatformInfoUnknown = "snp-platform-info-unknown", Platform, TeeNotTrusted, "use a release of this program that knows the bits, or, where AMD's specification shows that they may be, let `snp.allow` say `unknown-platform-info`";
    /// Another privilege level asked for the report.
    #[cfg(feature = "processors")]
    SnpVmplRefused = "snp-vmpl-refused", Platform, TeeNotTrusted, "ask for the report at the level that `snp.vmpl` names";
    /// The ID block is signed by a key that the policy does not name, or there is none.
    #[cfg(feature = "processors")]
    SnpIdKeyRefused = "snp-id-key-refused", Platform, TeeNotTrusted, "launch the guest with an ID block of a key that `snp.id_key_sha384` names";
    /// The ID key is signed by a key that the policy does not name, or by none.
    #[cfg(feature = "processors")]
    SnpAuthorKeyRefused = "snp-author-key-refused", Platform, TeeNotTrusted, "launch the guest with an ID block whose key an author of `snp.author_key_sha384` signed";
    /// The guest's security version is below the policy's.
    #[cfg(feature = "processors")]
    SnpGuestSvnTooOld = "snp-guest-svn-too-old", Platform, TeeNotTrusted, "launch the guest with an ID block of at least `snp.minimum_guest_svn`";
    /// The ID block names another family.
    #[cfg(feature = "processors")]
    SnpFamilyIdDiffers = "snp-family-id-differs", Platform, TeeNotTrusted, "launch the guest with the ID block whose family `snp.family_id` names";
    /// The ID block names another image.
    #[cfg(feature = "processors")]
    SnpImageIdDiffers = "snp-image-id-differs", Platform, TeeNotTrusted, "launch the guest with the ID block whose image `snp.image_id` names";
    /// The host gave the guest other data at launch.
    #[cfg(feature = "processors")]
    SnpHostDataDiffers = "snp-host-data-differs", Platform, TeeNotTrusted, "launch the guest with the host data that `snp.host_data` names";

    // What the processor of a TDX guest says.
    /// The policy demands what a TDX processor says, and no quote came.
    TdxQuoteMissing = "tdx-quote-missing", Platform, TeeNotTrusted, "boot the image as a TDX guest whose kernel offers quotes (configfs-tsm), or take the section `tdx` out of the policy";
    /// The policy demands quotes, and this verifier was given nothing to verify them by.
    TdxNotVerifiable = "tdx-not-verifiable", Operator, VerifierUnavailable, "give the verifier collateral with Intel's part: `collateral` in the join service's configuration, or `latchkey collateral install` where the cluster is in its API server; --collateral on the command line";
    /// The bytes are no quote of a TDX guest with the chain of its key's certificate.
    #[cfg(feature = "processors")]
    TdxQuoteMalformed = "tdx-quote-malformed", Peer, EvidenceMalformed, "give the quote as the guest's kernel returned it, version 4 or 5, with the certificate chain of the platform's key in it (certification data of type 5)";
    /// The host may look into the guest.
    #[cfg(feature = "processors")]
    TdxDebugAllowed = "tdx-debug-allowed", Platform, TeeNotTrusted, "launch the guest without DEBUG and without the attributes for profiling";
    /// The guest may be moved to another machine.
    #[cfg(feature = "processors")]
    TdxMigrationAllowed = "tdx-migration-allowed", Platform, TeeNotTrusted, "launch the guest without MIGRATABLE: which machine it is on would not be known";
    /// Of what belongs to the quote, something is not in the collateral.
    #[cfg(feature = "processors")]
    TdxCollateralMissing = "tdx-collateral-missing", Operator, VerifierUnavailable, "fetch Intel's collateral for this platform: `latchkey collateral fetch --tdx-quote`";
    /// Something of the collateral begins later.
    #[cfg(feature = "processors")]
    TdxCollateralNotYetValid = "tdx-collateral-not-yet-valid", Operator, VerifierUnavailable, "correct the verifier's clock: Intel issues nothing for the future";
    /// Something of the collateral is over.
    #[cfg(feature = "processors")]
    TdxCollateralExpired = "tdx-collateral-expired", Operator, VerifierUnavailable, "fetch Intel's collateral again (`latchkey collateral fetch --tdx-quote`), or correct the verifier's clock";
    /// Intel revoked the platform's certificate, or one of those above it.
    #[cfg(feature = "processors")]
    TdxCertificateRevoked = "tdx-certificate-revoked", Platform, TeeNotTrusted, "run the guest on another machine; of one whose certificate was replaced, register the platform with Intel again";
    /// The certificates of the platform's key, which stand in the quote, are not valid yet.
    #[cfg(feature = "processors")]
    TdxCertificateNotYetValid = "tdx-certificate-not-yet-valid", Platform, TeeNotTrusted, "correct the verifier's clock: Intel issues no certificate for the future";
    /// The certificates of the platform's key, which stand in the quote, have expired.
    #[cfg(feature = "processors")]
    TdxCertificateExpired = "tdx-certificate-expired", Platform, TeeNotTrusted, "correct the verifier's clock, or have the platform registered with Intel again and its certificate fetched by the host";
    /// The quote's signatures, chain or quoting enclave do not lead to Intel.
    #[cfg(feature = "processors")]
    TdxQuoteUntrusted = "tdx-quote-untrusted", Platform, TeeNotTrusted, "give the quote as the guest's kernel returned it, of a platform that is registered with Intel; if that was done, fetch the collateral again";
    /// Intel revoked what the platform runs.
    #[cfg(feature = "processors")]
    TdxTcbRevoked = "tdx-tcb-revoked", Platform, TeeNotTrusted, "update the machine's firmware, microcode and TDX module, and launch the guest anew";
    /// What the platform runs is below every level that Intel lists.
    #[cfg(feature = "processors")]
    TdxTcbTooOld = "tdx-tcb-too-old", Platform, TeeNotTrusted, "update the machine's firmware, microcode and TDX module, and launch the guest anew";
    /// The TDX module is none that Intel's TCB information names.
    #[cfg(feature = "processors")]
    TdxModuleUnknown = "tdx-module-unknown", Platform, TeeNotTrusted, "run a TDX module of Intel's on the machine; if that is done, fetch Intel's collateral again";
    /// The quote is over other data.
    #[cfg(feature = "processors")]
    TdxReportDataMismatch = "tdx-report-data-mismatch", Peer, EvidenceRejected, "ask for a quote over the binding of this very connection: if that was done, something relays or replays evidence";
    /// The policy denies this platform.
    #[cfg(feature = "processors")]
    TdxPlatformDenied = "tdx-platform-denied", Operator, TeeNotTrusted, "remove the platform from `tdx.denied_platforms` if its guests are to be admitted again";
    /// Intel's word on the platform's TCB is none that the policy takes.
    #[cfg(feature = "processors")]
    TdxTcbStatusRefused = "tdx-tcb-status-refused", Platform, TeeNotTrusted, "update the machine's firmware, microcode and TDX module and launch the guest anew, or let `tdx.tcb_status` name the status";
    /// An advisory of Intel's is open for the platform, and the policy does not tolerate it.
    #[cfg(feature = "processors")]
    TdxAdvisoryNotTolerated = "tdx-advisory-not-tolerated", Platform, TeeNotTrusted, "do what the advisory says on the machine, or name it in `tdx.tolerated_advisories`";
    /// The status is by an evaluation of Intel's that is older than the policy takes.
    #[cfg(feature = "processors")]
    TdxEvaluationTooOld = "tdx-evaluation-too-old", Operator, VerifierUnavailable, "fetch Intel's collateral again: its TCB evaluation is older than `tdx.minimum_tcb_evaluation`";
    /// The TDX module is none that the policy names.
    #[cfg(feature = "processors")]
    TdxModuleRefused = "tdx-module-refused", Platform, TeeNotTrusted, "run one of the TDX modules of `tdx.mrseam` on the machine, or name this one";
    /// The guest's attributes are not those that the policy takes.
    #[cfg(feature = "processors")]
    TdxAttributesRefused = "tdx-attributes-refused", Platform, TeeNotTrusted, "launch the guest with SEPT_VE_DISABLE and without the attributes that the detail names, or let `tdx.allow` say them";
    /// Service guests are bound to the guest.
    #[cfg(feature = "processors")]
    TdxServiceTd = "tdx-service-td", Platform, TeeNotTrusted, "launch the guest without service guests, or let `tdx.allow` say `service-td`";
    /// The guest uses other extended states of the processor.
    #[cfg(feature = "processors")]
    TdxXfamDiffers = "tdx-xfam-differs", Platform, TeeNotTrusted, "launch the guest with the extended states of `tdx.xfam`";
    /// What the guest was launched with is nothing that the policy names.
    #[cfg(feature = "processors")]
    TdxMrtdUnknown = "tdx-mrtd-unknown", Platform, TeeNotTrusted, "launch the guest with the firmware whose MRTD `tdx.mrtd` names, or name this one";
    /// A register that the guest extended has none of the values that the policy names.
    #[cfg(feature = "processors")]
    TdxRtmrDiffers = "tdx-rtmr-differs", Platform, MeasurementsRefused, "boot what the values of `tdx.rtmrs`, or of the manifest's `tdx`, are of: RTMR 0 is the firmware's settings, 1 the boot loader or kernel, 2 what they load";
    /// The policy demands the registers of a manifest, which lists none for this image on this type of machine.
    #[cfg(feature = "processors")]
    TdxRtmrMissing = "tdx-rtmr-missing", Operator, MeasurementsRefused, "let the image's machine type say what a TDX guest measures (`tdx`, `latchkey image build`) and sign the manifest again, or let `tdx.rtmrs` of the policy list values";
    /// What the launcher said of the guest is not what the policy names.
    #[cfg(feature = "processors")]
    TdxLaunchDiffers = "tdx-launch-differs", Platform, TeeNotTrusted, "launch the guest with the MRCONFIGID, MROWNER and MROWNERCONFIG that `tdx` names";

    // What vendors publish for verifiers.
    /// A file of the collateral is not what it has to be.
    CollateralMalformed = "collateral-malformed", Operator, VerifierUnavailable, "fetch the file that the detail names again";
    /// A root certificate of the collateral is not one that this program knows.
    #[cfg(feature = "processors")]
    CollateralRootUnknown = "collateral-root-unknown", Operator, VerifierUnavailable, "take AMD's chain from AMD and Intel's from Intel: no other authority makes reports and quotes true";

    // The endorsement key.
    /// The EK public area is no `TPMT_PUBLIC`.
    EkMalformed = "ek-malformed", Peer, EvidenceMalformed, "send the TPMT_PUBLIC of the endorsement key as the TPM returned it";
    /// The EK public area is none of the TCG's EK templates.
    EkTemplateUnknown = "ek-template-unknown", Platform, TpmNotTrusted, "create the endorsement key from TCG template L-1, L-2, H-1 to H-4, H-6 or H-7";
    /// This verifier cannot make credentials for such an EK.
    EkAlgorithmUnsupported = "ek-algorithm-unsupported", Platform, TpmNotTrusted, "use the TPM's ECC P-256 or P-384 endorsement key, or a verifier built with RSA and P-521, as services and command line are";
    /// The EK's public point or modulus is not valid.
    EkKeyInvalid = "ek-key-invalid", Peer, TpmNotTrusted, "replace this TPM: its endorsement key is not a valid public key";
    /// The EK is of a template that the policy does not take for a TPM's identity.
    EkTemplateRefused = "ek-template-refused", Operator, TpmNotTrusted, "let the machine show the endorsement key that the policy's `ek_templates` names (`latchkey.ek` in its image), or list this template if these TPMs have no other";
    /// The policy's deny list names this EK.
    EkDenied = "ek-denied", Operator, TpmNotTrusted, "remove this EK digest from `denied_ek_sha256` if the machine is to be admitted again";
    /// The policy pins EKs and this is none of them.
    EkNotPinned = "ek-not-pinned", Operator, TpmNotTrusted, "add this TPM's EK digest to the policy's `pinned-ek` rule, if the machine is yours";

    // The endorsement key's certificate.
    /// The policy wants a certificate chain and the peer has no EK certificate.
    EkCertificateMissing = "ek-certificate-missing", Platform, TpmNotTrusted, "provision an EK certificate in the TPM's NV memory, or pin this TPM's EK digest in the policy";
    /// The EK certificate, or an intermediate, is not readable X.509.
    EkCertificateMalformed = "ek-certificate-malformed", Platform, TpmNotTrusted, "provision a well-formed X.509 v3 EK certificate";
    /// The certificate is for another key than the EK shown.
    EkCertificateOfAnotherTpm = "ek-certificate-of-another-tpm", Platform, TpmNotTrusted, "send the certificate that belongs to the endorsement key in use (RSA, P-256 and P-384 have one each)";
    /// The certificate is not marked as an EK certificate.
    EkCertificateNotForEk = "ek-certificate-not-for-ek", Platform, TpmNotTrusted, "issue EK certificates with the extended key usage 2.23.133.8.1 (tcg-kp-EKCertificate)";
    /// The EK certificate is not valid yet.
    EkCertificateNotYetValid = "ek-certificate-not-yet-valid", Platform, TpmNotTrusted, "correct the verifier's clock, or issue the certificate with an earlier notBefore";
    /// The EK certificate, or one above it, has expired.
    EkCertificateExpired = "ek-certificate-expired", Platform, TpmNotTrusted, "correct the verifier's clock, renew the EK certificate, or pin this TPM's EK digest";
    /// No chain to a root of the policy.
    EkCertificateUntrusted = "ek-certificate-untrusted", Operator, TpmNotTrusted, "add the TPM vendor's root, and any missing intermediate, to the policy's `ek-chain` rule";
    /// A signature in the chain does not verify.
    EkCertificateBadSignature = "ek-certificate-bad-signature", Peer, TpmNotTrusted, "provision the EK certificate again: it, or one above it, was altered";
    /// The chain breaks a rule of X.509 path validation.
    EkCertificateChainInvalid = "ek-certificate-chain-invalid", Platform, TpmNotTrusted, "issue the chain according to RFC 5280: the detail names the rule that is broken";
    /// The EK certificate, or one of its issuers', is on its issuer's list of revoked ones.
    EkCertificateRevoked = "ek-certificate-revoked", Platform, TpmNotTrusted, "replace the TPM: its maker no longer vouches for it";

    // The attestation key.
    /// The AK public area is no `TPMT_PUBLIC`.
    AkMalformed = "ak-malformed", Peer, EvidenceMalformed, "send the TPMT_PUBLIC of the attestation key as the TPM returned it";
    /// The AK may sign data the TPM did not make.
    AkNotRestricted = "ak-not-restricted", Peer, TpmNotTrusted, "create the attestation key with the attribute `restricted`";
    /// The AK is not a signing key.
    AkNotSigning = "ak-not-signing", Peer, TpmNotTrusted, "create the attestation key with the attribute `sign`";
    /// The AK is a decryption key.
    AkMayDecrypt = "ak-may-decrypt", Peer, TpmNotTrusted, "create the attestation key without the attribute `decrypt`";
    /// The AK may sign certificates, which are then no attestations of its TPM.
    AkMaySignCertificates = "ak-may-sign-certificates", Peer, TpmNotTrusted, "create the attestation key without the attribute `x509sign`";
    /// The AK may leave its TPM.
    AkNotFixedTpm = "ak-not-fixed-tpm", Peer, TpmNotTrusted, "create the attestation key with the attribute `fixedTPM`";
    /// The AK may move to another parent.
    AkNotFixedParent = "ak-not-fixed-parent", Peer, TpmNotTrusted, "create the attestation key with the attribute `fixedParent`";
    /// The AK was made outside its TPM.
    AkImported = "ak-imported", Peer, TpmNotTrusted, "let the TPM create the attestation key (`sensitiveDataOrigin`)";
    /// The AK's algorithm is not one the policy accepts.
    AkAlgorithmRefused = "ak-algorithm-refused", Peer, TpmNotTrusted, "use an ECDSA P-256 / SHA-256 attestation key, or allow the algorithm in the policy's `ak_algorithms`";

    // The AK's certificate.
    /// The policy demands a certificate of the attestation key, none came.
    AkCertificateMissing = "ak-certificate-missing", Platform, TpmNotTrusted, "let the machine quote with its cloud's certified attestation key (`latchkey.ak` in its image), on a machine type that has one, or take its TPM by another rule";
    /// The certificate is not parseable.
    AkCertificateMalformed = "ak-certificate-malformed", Platform, TpmNotTrusted, "create the machine anew: what its TPM holds is no X.509 v3 certificate";
    /// The certificate is for another key.
    AkCertificateOfAnotherKey = "ak-certificate-of-another-key", Peer, TpmNotTrusted, "send the certificate that belongs to the attestation key in use";
    /// The certificate lacks the purpose of an attestation key, or has another one.
    AkCertificateNotForAk = "ak-certificate-not-for-ak", Platform, TpmNotTrusted, "take certificates with the extended key usage 2.23.133.8.3 (tcg-kp-AIKCertificate), or say `\"purpose\": \"if-there\"` in the rule if this authority's have none, or that of an endorsement key, as Google's of 2021; with a key usage it must be digitalSignature alone";
    /// The certificate, or one of its issuers', is not valid yet.
    AkCertificateNotYetValid = "ak-certificate-not-yet-valid", Platform, TpmNotTrusted, "correct the verifier's clock, or wait until the certificate and its issuers' begin";
    /// The certificate, or one of its issuers', has expired.
    AkCertificateExpired = "ak-certificate-expired", Platform, TpmNotTrusted, "correct the verifier's clock, restart the machine so that its cloud renews the certificate, or give the rule the authority's new intermediate";
    /// The certificate chains to no root of the policy.
    AkCertificateUntrusted = "ak-certificate-untrusted", Operator, TpmNotTrusted, "add the cloud's root, and every intermediate it issues with, to the policy's `ak-chain` rule";
    /// A signature in the chain does not verify.
    AkCertificateBadSignature = "ak-certificate-bad-signature", Peer, TpmNotTrusted, "create the machine anew: its certificate, or one above it, was altered";
    /// The chain breaks another rule of X.509.
    AkCertificateChainInvalid = "ak-certificate-chain-invalid", Platform, TpmNotTrusted, "take a chain that keeps RFC 5280: the detail names the rule that is broken";
    /// The attestation key's certificate, or one of its issuers', is on its issuer's list of revoked ones.
    AkCertificateRevoked = "ak-certificate-revoked", Platform, TpmNotTrusted, "create the machine anew, or take the root out of the policy: the authority no longer vouches for this key";

    // Lists of what authorities of TPMs revoked.
    /// The rule demands a list of each authority of the chain, and there is none of one.
    TpmRevocationListMissing = "tpm-revocation-list-missing", Operator, VerifierUnavailable, "put the lists of all authorities of the chain into the collateral's `tpm`, or say `\"revocation_list\": \"if-there\"` in the rule if one publishes none";
    /// A list of an authority of the chain is too old to say anything.
    TpmRevocationListExpired = "tpm-revocation-list-expired", Operator, VerifierUnavailable, "fetch the authority's list again and put it in the old one's place, or correct the verifier's clock";
    /// A list in an authority's name is not signed by it.
    TpmRevocationListInvalid = "tpm-revocation-list-invalid", Operator, VerifierUnavailable, "fetch the authority's list again: the one in the collateral is signed by another key, or by one that may sign no lists";
    /// The peer could not open the credential: EK and AK are not in one TPM, or the TPM is not there.
    ActivationFailed = "activation-failed", Peer, TpmNotTrusted, "let the TPM that holds the endorsement key hold the attestation key too, and activate the credential of this very connection";

    // The quote.
    /// The quote is no `TPMS_ATTEST`, or has bytes left over.
    QuoteMalformed = "quote-malformed", Peer, EvidenceMalformed, "send the TPMS_ATTEST as the TPM returned it";
    /// The structure was not made inside a TPM.
    QuoteNotTpmGenerated = "quote-not-tpm-generated", Peer, EvidenceRejected, "send a quote made by the TPM: this structure does not begin with TPM_GENERATED_VALUE";
    /// The structure is another attestation than a quote.
    QuoteWrongType = "quote-wrong-type", Peer, EvidenceRejected, "send the result of TPM2_Quote and of no other attestation command";
    /// The quote was made for another session, purpose, direction or time.
    QuoteBindingMismatch = "quote-binding-mismatch", Peer, EvidenceRejected, "quote the binding of this very connection: if that was done, something relays or replays evidence";
    /// The signature is no `TPMT_SIGNATURE`.
    SignatureMalformed = "signature-malformed", Peer, EvidenceMalformed, "send the TPMT_SIGNATURE as the TPM returned it";
    /// The signature's scheme is not the AK's.
    SignatureAlgorithm = "signature-algorithm", Peer, EvidenceRejected, "sign with the attestation key's own scheme and SHA-256";
    /// The signature does not verify under the AK.
    SignatureInvalid = "signature-invalid", Peer, EvidenceRejected, "send quote and signature of one TPM2_Quote by the attestation key of this connection";
    /// The AK is not of the endorsement hierarchy.
    QuoteHierarchyRefused = "quote-hierarchy-refused", Peer, EvidenceRejected, "make the attestation key in the TPM's endorsement hierarchy, as a primary or below the endorsement key: keys of the owner's hierarchy sign masked counters";
    /// The quote does not cover the SHA-256 bank alone.
    QuoteBankRefused = "quote-bank-refused", Peer, EvidenceRejected, "quote the SHA-256 bank and no other, and enable it in the firmware if it is off";
    /// The quote does not cover exactly the policy's PCRs.
    QuoteSelectionMismatch = "quote-selection-mismatch", Peer, EvidenceRejected, "quote exactly the PCRs of the verifier's challenge";
    /// A PCR value is missing or not covered by the quote.
    PcrValuesMismatch = "pcr-values-mismatch", Peer, EvidenceRejected, "send one value for each quoted PCR and no other";
    /// The PCR values do not hash to the quoted digest.
    PcrDigestMismatch = "pcr-digest-mismatch", Peer, EvidenceRejected, "read the PCR values again: they changed between reading and quoting, or were altered";

    // Policy: the measurements.
    /// PCR 0 to 3 or 6.
    FirmwareDiffers = "firmware-differs", Platform, MeasurementsRefused, "record reference values for this firmware build, or let the policy only warn about PCR 0 to 3 and 6";
    /// The policy takes known firmware alone, and no manifest lists this machine's.
    FirmwareUnknown = "firmware-unknown", Platform, MeasurementsRefused, "if you trust this machine's firmware, record a boot of it (`latchkey record`), add it to a manifest (`latchkey reference add-firmware`), and put that in force; else look at what its firmware is";
    /// PCR 4.
    BootLoaderDiffers = "boot-loader-differs", Platform, MeasurementsRefused, "let the firmware start a unified kernel image of the reference values, to the byte and without another loader in between, or add this one to them";
    /// PCR 5.
    PartitionTableDiffers = "partition-table-differs", Platform, MeasurementsRefused, "record again if the state partition has grown, else restore the boot disk's partition table; or let the policy only warn about PCR 5";
    /// PCR 7.
    SecureBootDiffers = "secure-boot-differs", Platform, MeasurementsRefused, "restore the Secure Boot state and keys of the reference values";
    /// PCR 8.
    OtherLoaderDiffers = "other-loader-differs", Platform, MeasurementsRefused, "boot without another boot loader in between";
    /// PCR 9.
    CommandLineDiffers = "command-line-differs", Platform, MeasurementsRefused, "boot with the image's own kernel command line and initrd";
    /// PCR 10.
    ImaDiffers = "ima-differs", Platform, MeasurementsRefused, "let the policy ignore PCR 10: the kernel's file measurements change with every boot";
    /// PCR 11.
    ImageDiffers = "image-differs", Platform, MeasurementsRefused, "boot the image unchanged, with its own kernel, initrd and command line, or add this image to the reference values";
    /// PCR 12.
    OverridesDiffer = "overrides-differ", Platform, MeasurementsRefused, "remove the command-line override, credentials or add-ons beside the image";
    /// PCR 13.
    ExtensionsDiffer = "extensions-differ", Platform, MeasurementsRefused, "remove the system extensions beside the image";
    /// PCR 14.
    MokDiffers = "mok-differs", Platform, MeasurementsRefused, "restore shim's machine owner keys, or let the policy only warn about PCR 14";
    /// PCR 16 to 23.
    OtherPcrDiffers = "other-pcr-differs", Platform, MeasurementsRefused, "take this PCR out of the policy: nothing of a measured boot is in it";
    /// The processor launched another image than the one whose measurements the TPM quotes.
    #[cfg(feature = "processors")]
    LaunchOfAnotherImage = "launch-of-another-image", Platform, MeasurementsRefused, "launch the firmware and the image of one and the same release; if that was done, the TPM is not this guest's";
    /// No manifest lists the launch digest of an SEV-SNP guest.
    LaunchUnknown = "launch-unknown", Platform, MeasurementsRefused, "launch firmware, processors and image that a manifest lists, or let the image's machine type say them (`snp`, `latchkey image build`)";
    /// The image is known but older than the policy's minimum.
    ImageVersionTooOld = "image-version-too-old", Platform, MeasurementsRefused, "upgrade the machine to an image of at least the policy's `minimum_version`";
    /// The image is known but its validity has not begun.
    ImageNotYetValid = "image-not-yet-valid", Operator, MeasurementsRefused, "wait for the image's `not_before`, or correct the verifier's clock";
    /// The image is known but its validity has ended.
    ImageExpired = "image-expired", Platform, MeasurementsRefused, "upgrade the machine to an image that is still valid, or extend `not_after`";

    /// The image is known, and its manifest revokes it.
    ImageRevoked = "image-revoked", Platform, MeasurementsRefused, "upgrade the machine to an image that is not revoked: the detail says why this one is";

    // Policy: the lock.
    /// PCR 15 is not zero although the node must not be locked yet.
    AlreadyLocked = "already-locked", Platform, LockRefused, "reboot the machine: it has already been locked in this boot";
    /// PCR 15 is zero although the node must be locked.
    NotLocked = "not-locked", Platform, LockRefused, "let the node join first: it is not locked to any cluster";
    /// PCR 15 is neither zero nor this cluster's value.
    LockedToAnotherCluster = "locked-to-another-cluster", Platform, LockRefused, "ask a node of this cluster: that one is locked to another, or something else extended PCR 15";

    // Loading policy and reference values.
    /// The policy is no JSON of the closed schema, or has a value out of range.
    PolicyMalformed = "policy-malformed", Operator, VerifierUnavailable, "correct the policy file as the detail says";
    /// The policy is of another version.
    PolicyVersionUnknown = "policy-version-unknown", Operator, VerifierUnavailable, "write the policy in version 3 (`latchkey policy new`): it also says which endorsement key stands for a TPM (`ek_templates`)";
    /// The policy has no way to trust a TPM, no PCRs, or no reference values.
    PolicyEmpty = "policy-empty", Operator, VerifierUnavailable, "name at least one trust rule, one enforced PCR and one reference manifest: an empty policy admits nobody";
    /// A root certificate of the policy is not usable.
    PolicyRootInvalid = "policy-root-invalid", Operator, VerifierUnavailable, "put each root and intermediate into the policy as one X.509 certificate, PEM or base64 DER";
    /// The reference values are no JSON of the closed schema, or have a value out of range.
    ReferenceMalformed = "reference-malformed", Operator, VerifierUnavailable, "correct the reference manifest as the detail says";
    /// The reference values are of another version.
    ReferenceVersionUnknown = "reference-version-unknown", Operator, VerifierUnavailable, "make the manifest anew in version 2 with `latchkey image build` or `latchkey record`, or upgrade this program";
    /// The reference values have no images, or an image enforces nothing.
    ReferenceEmpty = "reference-empty", Operator, VerifierUnavailable, "list at least one image with at least one enforced PCR: empty reference values admit nobody";
    /// The policy wants a signature, and there is none beside the manifest.
    ReferenceSignatureMissing = "reference-signature-missing", Operator, VerifierUnavailable, "sign the manifest by a key of the policy's `signers` (`latchkey reference sign`) and keep FILE.minisig beside FILE";
    /// What is beside the manifest is no signature of minisign.
    ReferenceSignatureMalformed = "reference-signature-malformed", Operator, VerifierUnavailable, "fetch the manifest's .minisig file again, or sign the manifest anew with `latchkey reference sign`";
    /// The signature is by a key that the policy does not name for this manifest.
    ReferenceSignatureUnknownSigner = "reference-signature-unknown-signer", Operator, VerifierUnavailable, "sign the manifest by a key of the policy's `signers`, or add its public key there if the signer is to be trusted";
    /// Manifest, signature or trusted comment are not what the key signed.
    ReferenceSignatureInvalid = "reference-signature-invalid", Operator, VerifierUnavailable, "fetch manifest and signature again from whoever made them: one of the two was altered, or they are of different revisions";
    /// This program is built without what the signature needs.
    ReferenceSignatureUnsupported = "reference-signature-unsupported", Operator, VerifierUnavailable, "use a verifier built with BLAKE2b, or sign the manifest with `minisign -l`";
    /// A newer revision of the manifest was accepted before.
    ReferenceRolledBack = "reference-rolled-back", Operator, VerifierUnavailable, "provide the newest revision of the manifest; to go back on purpose, sign the old content under a higher serial";
    /// Two revisions of one manifest have the same serial.
    ReferenceSerialReused = "reference-serial-reused", Operator, VerifierUnavailable, "give every revision of a manifest a serial of its own, higher than the last one's (`latchkey reference add` does)";
    /// The policy names a manifest that is not loaded.
    ReferenceMissing = "reference-missing", Operator, VerifierUnavailable, "provide every reference manifest that the policy names";
    /// A manifest does not fit the policy's PCRs.
    ReferenceUnfit = "reference-unfit", Operator, VerifierUnavailable, "give every image a value for each PCR the policy enforces, and enforce none that the policy does not quote; under `\"firmware\": \"known\"` let a manifest list some (`latchkey reference add-firmware`)";

    // Recorded evidence.
    /// The recording is no JSON of the closed schema.
    RecordingMalformed = "recording-malformed", Operator, EvidenceMalformed, "use a file written by this program, unchanged";
    /// The recording is of another version.
    RecordingVersionUnknown = "recording-version-unknown", Operator, EvidenceMalformed, "record the evidence again, or upgrade this program";

    // The verifier itself.
    /// No random numbers, or a primitive failed that cannot fail on valid input.
    VerifierFault = "verifier-fault", Verifier, VerifierUnavailable, "restart the verifier; report the detail if it happens again";
}

impl latchkey_reason::ReasonCode for ReasonCode {
    const ALL: &'static [Self] = Self::ALL;

    fn reason(self) -> Reason {
        Reason { code: self.as_str(), remedy: self.remedy() }
    }
}

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = Reason> {
    latchkey_reason::reasons::<ReasonCode>()
}
