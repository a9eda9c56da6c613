//! Pods of tests: one that answers, one that asks it by its service's name.

use serde_json::{Value, json};

use super::{BUSYBOX, Site};
use crate::error::HarnessError;
use crate::fleet::STEP;

/// What the pod on the second node says.
const ANSWER: &str = "the answer of node-2";

impl Site {
    /// Puts a pod on the second node that answers requests, and its service.
    pub fn deploy_web(&self) -> Result<(), HarnessError> {
        self.apply("web.json", &[pod("web", "node-2", &serve()), service()])
    }

    /// The same, and another such pod comes there when this one is gone, unless the node is cordoned.
    pub fn keep_web(&self) -> Result<(), HarnessError> {
        let mut template = pod("web", "node-2", &serve());
        template["spec"]["tolerations"] = json!([]);
        let labels = json!({"app": "web"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
            },
        });
        self.apply("web.json", &[deployment, service()])?;
        self.ask(&["rollout", "status", "deployment/web", "--timeout=15m"]).map(drop)
    }

    /// Has a pod of this name on the first node ask it, by the service's name, until it has the answer: a new service reaches the
    /// nodes' tables after a while.
    pub fn asked(&self, asker: &str) -> Result<String, HarnessError> {
        let ask = "until busybox wget -q -O /tmp/answer http://web; do busybox sleep 1; done; busybox cat /tmp/answer; \
                   exec busybox sleep 1000000";
        self.apply("asker.json", &[pod(asker, "node-1", ask)])?;
        self.ask(&["wait", "--for=condition=Ready", &format!("pod/{asker}"), "--timeout=15m"])?;
        let log = self.follow(&format!("{asker}-log"), &["logs", "--follow", asker])?;
        Ok(log.console().expect(ANSWER, STEP)?.text)
    }
}

fn serve() -> String {
    format!("echo '{ANSWER}' > /tmp/index.html; echo serving; exec busybox httpd -f -p 80 -h /tmp")
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    })
}

/// A pod on the node of this name that runs a shell script, wherever pods may run or not.
fn pod(name: &str, node: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": name, "image": BUSYBOX, "command": ["/usr/local/bin/busybox", "sh", "-c", script]}],
        },
    })
}
