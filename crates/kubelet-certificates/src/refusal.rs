//! Why a certificate is refused.

use latchkey_reason::reason_codes;

reason_codes! {
    /// Why a kubelet gets no certificate. It stands in the denied request.
    pub enum CertificateRefusal {
        /// The request is too long, no PEM as kubelets write it, or no PKCS#10 in DER.
        Malformed = "certificate-request-malformed":
            "the request is none that a kubelet makes: let the kubelet of this release make it";
        /// It is not signed by the key that it names.
        SignatureInvalid = "certificate-request-signature-invalid":
            "whoever made the request does not hold its key: let the kubelet make it anew";
        /// The key is of another kind than kubelets'.
        KeyRefused = "certificate-key-refused":
            "kubelets make P-256 keys: let the kubelet of this release make the request";
        /// The subject has other parts than one organisation and one common name, or spells them in another way.
        SubjectRefused = "certificate-subject-refused":
            "a kubelet's subject is O=system:nodes, CN=system:node:NAME and nothing else: let the kubelet make the request";
        /// The organisation is not `system:nodes`: it would be a member of another group.
        GroupRefused = "certificate-group-refused":
            "a kubelet's certificate makes a member of `system:nodes` and of no other group: find out who uses this token";
        /// The common name is not that of the node whose token or certificate asks.
        NameForeign = "certificate-of-another-node":
            "a node gets certificates for its own name only: start the kubelet with the name of the ticket, or find out who uses its token";
        /// A client certificate with names of hosts.
        ClientWithNames = "client-certificate-with-names":
            "a kubelet's client certificate has no names of hosts: let the kubelet make the request";
        /// An attribute or extension that kubelets do not ask for.
        ExtensionRefused = "certificate-extension-refused":
            "a kubelet asks for subject alternative names at most: let the kubelet of this release make the request";
        /// Key usages that are not those of the signer.
        UsageRefused = "certificate-usage-refused":
            "a kubelet asks for its signer's key usages and no others: let the kubelet make the request";
        /// Whoever asks is neither a token of a ticket nor, for a serving certificate, a node.
        RequesterRefused = "certificate-requester-refused":
            "in this cluster nodes get certificates with the token of their ticket, and serving certificates as nodes: boot the machine with its agent";
        /// No ticket is on record for this token.
        TicketUnknown = "ticket-unknown":
            "no ticket was issued with this token, or its record is gone: restart the node, it asks for another";
        /// The ticket's time is over.
        TicketExpired = "ticket-expired":
            "the token's time is over: restart the node, it asks for another ticket";
        /// Its node has reported, so its token is good for nothing any more.
        TicketReported = "ticket-reported":
            "the node of this token has joined already: find out who else uses it";
        /// The ticket of a control plane whose lease has ended.
        TicketLeaseEnded = "ticket-lease-ended":
            "this control plane did not join in its time, and another may join now: restart the node, it asks for another ticket";
        /// The ticket was used for another request.
        TicketUsed = "ticket-used":
            "a ticket is good for one certificate: restart the node, it asks for another ticket; if it has its certificate, find out who else uses the token";
        /// No node of this name was attested.
        NodeUnknown = "node-unknown":
            "this machine has no record here: it joins first, by its evidence";
        /// The operator shut this node out.
        NodeDenied = "machine-denied":
            "the operator shut this machine out: `latchkey node allow` takes that back";
        /// A serving certificate without a name or address.
        ServingWithoutNames = "serving-certificate-without-names":
            "a kubelet asks for its names and addresses once it knows them: restart the kubelet";
        /// A name or address that is not the node's.
        ServingNameForeign = "serving-name-foreign":
            "a node gets serving certificates for its own names and addresses only: let its report say new ones, or find out who else runs on it";
        /// A name or address that means something else to everybody, such as `localhost` or that of a service.
        ServingNameReserved = "serving-name-reserved":
            "no node has a name of the cluster's services or of every machine itself: give the node another name";
    }
}

impl std::error::Error for CertificateRefusal {}
