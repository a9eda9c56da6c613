//! The reason codes of stock programs, and of the API server as they tell of it.

use latchkey_reason::reason_codes;

reason_codes! {
    /// Why a stock program (kubectl, helm) did not do what was asked.
    pub enum StockCode {
        /// There is no kubectl.
        KubectlMissing = "kubectl-missing":
            "install kubectl of the cluster's version (https://kubernetes.io/docs/tasks/tools), or name it with --kubectl-program";
        /// There is no helm.
        HelmMissing = "helm-missing":
            "install helm 3 (https://helm.sh/docs/intro/install), or name it with --helm-program";
        /// There is no kubeconfig where one is named.
        KubeconfigMissing = "kubeconfig-missing":
            "name the administrator's kubeconfig, admin.conf in the cluster's directory; if that is lost, `latchkey credentials admin` makes another";
        /// The file is no program that can be started.
        Unusable = "program-unusable": "name the program's file, for this machine and executable";
        /// The program is older than what it works with allows.
        TooOld = "program-too-old": "install the version that the message names, or name one with --kubectl-program or --helm-program";
        /// The program is newer than what it works with, or than this release, allows.
        TooNew = "program-too-new": "install the version that the message names, or name one with --kubectl-program or --helm-program";
        /// helm by hand keeps its releases elsewhere than in Secrets.
        HelmDriver = "helm-driver-unsupported":
            "unset HELM_DRIVER, or set it to `secret`; releases that are kept elsewhere are moved by installing them anew";
        /// What the program printed is not what it prints.
        Malformed = "program-answer-malformed": "see that the program is the stock one: run it by hand, as the message shows";
        /// It prints more than it can have to say.
        TooLong = "program-answer-too-long": "see that the program is the stock one: run it by hand, as the message shows";
        /// It did not end in time.
        Late = "program-too-slow": "see whether the API server answers, and run the command again";
        /// It ended badly, for a reason that has no code of its own.
        Failed = "program-failed": "mend what the program says, and run the command again";
        /// The command was told to stop.
        Interrupted = "interrupted": "run the command again: it goes on where it stopped";
        /// Nobody answers at the kubeconfig's address, or the connection breaks.
        Unreachable = "api-server-unreachable": "see that the API server runs and is reached at the kubeconfig's address";
        /// The API server's certificate is not of the kubeconfig's authority.
        Untrusted = "api-server-untrusted": "find out who answers at the kubeconfig's address: it is not its cluster";
        /// 401: who asks is not known.
        KnowsUsNot = "api-server-knows-us-not": "renew the credentials in the kubeconfig: the API server does not accept them";
        /// 403: who asks may not do that.
        Forbidden = "api-server-forbids": "use a kubeconfig of somebody who may do this; the message names what is missing";
        /// 404.
        ObjectMissing = "api-object-missing": "see whether the object that is named was removed meanwhile";
        /// 409: there is one of this name.
        ObjectExists = "api-object-exists": "look at the object that is named: it is there already";
        /// 409: somebody else wrote at the same time.
        Conflict = "api-conflict": "find out who else writes the object, and run the command again";
        /// 410: a list was continued too late.
        Expired = "api-list-expired": "run the command again; if it fails again, the API server is too slow for its own time limit";
        /// 422: what was sent is not valid.
        Invalid = "api-server-refused-object": "correct what the API server names";
        /// Somebody works on the release, or was interrupted.
        ReleaseBusy = "release-busy":
            "wait until the other helm is done; if nobody works on it, run the command with --take-over, which mends it first";
        /// The values do not fit the chart.
        ValuesInvalid = "chart-values-invalid": "correct the values that helm names";
        /// The chart cannot be read, got or rendered.
        ChartUnusable = "chart-unusable": "check the chart: `latchkey charts check` renders it without a cluster";
        /// What the chart made did not get ready in time.
        NotReady = "chart-not-ready":
            "look at the chart's pods and events with kubectl, or allow more time with `wait` in the charts file";
        /// 429 and 5xx.
        ServerFailed = "api-server-failed": "look into the API server's log: etcd without quorum is the usual reason";
    }
}
