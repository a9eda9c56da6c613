//! Tells Azure that this machine is up: without that word it calls the deployment failed after a while.
//!
//! `learn.microsoft.com/azure/virtual-machines/linux/no-agent`: the wire server says which instance this is, and is told of its health.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::cloud::{CloudError, MAX_JSON, PATIENCE, patiently};
use super::http::{Question, Server};

/// The wire server of every virtual machine.
const SERVER: Server =
    Server { address: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), 80), name: "168.63.129.16" };
const GOAL_STATE: &str = "/machine/?comp=goalstate";
const HEALTH: &str = "/machine?comp=health";
const MAX_NAME: usize = 256;

pub(super) async fn report() -> Result<(), CloudError> {
    patiently(Instant::now() + PATIENCE, || report_to(SERVER)).await
}

async fn report_to(server: Server) -> Result<(), CloudError> {
    let headers = [("x-ms-agent-name", "latchkey"), ("x-ms-version", "2012-11-30")];
    let answer = server.ask(Question::get(GOAL_STATE, &headers, MAX_JSON)).await?;
    if answer.status != 200 {
        return Err(CloudError::Status { path: GOAL_STATE, status: answer.status });
    }
    let no = |what| CloudError::Answer { path: GOAL_STATE, what };
    let text = String::from_utf8(answer.body).map_err(|_| no("no UTF-8"))?;
    let container = element(&text, "ContainerId").ok_or_else(|| no("no ContainerId"))?;
    let instance = element(&text, "InstanceId").ok_or_else(|| no("no InstanceId"))?;
    let incarnation = element(&text, "Incarnation").ok_or_else(|| no("no Incarnation"))?;
    let health = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><Health>\
         <GoalStateIncarnation>{incarnation}</GoalStateIncarnation><Container><ContainerId>{container}</ContainerId>\
         <RoleInstanceList><Role><InstanceId>{instance}</InstanceId><Health><State>Ready</State></Health></Role>\
         </RoleInstanceList></Container></Health>"
    );
    let headers = [headers[0], headers[1], ("Content-Type", "text/xml;charset=utf-8")];
    let answer = server.ask(Question::send("POST", HEALTH, &headers, health.as_bytes(), MAX_JSON)).await?;
    if matches!(answer.status, 200..=299) {
        Ok(())
    } else {
        Err(CloudError::Status { path: HEALTH, status: answer.status })
    }
}

/// The text of an element that stands there once. It comes back in a document of ours, so it is a name and nothing else.
fn element<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let (_, rest) = document.split_once(&begin)?;
    let (text, rest) = rest.split_once(&end)?;
    let is_name = (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    (is_name && !rest.contains(&begin)).then_some(text)
}

#[cfg(test)]
mod tests {
    use latchkey_test_support::metadata::FakeServer;

    use super::*;

    /// The elements, their order and their indentation as the wire server has them (`WALinuxAgent`'s `tests/data/wire/goal_state.xml`).
    const STATE: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<GoalState xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="goalstate10.xsd">
  <Version>2012-11-30</Version>
  <Incarnation>1</Incarnation>
  <Machine>
    <ExpectedState>Started</ExpectedState>
    <LBProbePorts>
      <Port>16001</Port>
    </LBProbePorts>
  </Machine>
  <Container>
    <ContainerId>c-1</ContainerId>
    <RoleInstanceList>
      <RoleInstance>
        <InstanceId>0a.web_1</InstanceId>
        <State>Started</State>
        <Configuration>
          <SharedConfig>http://168.63.129.16:80/shared</SharedConfig>
          <ConfigName>0a.0.web.1.xml</ConfigName>
        </Configuration>
      </RoleInstance>
    </RoleInstanceList>
  </Container>
</GoalState>
"#;

    fn reported(state: &'static str, status: u16) -> (Result<(), CloudError>, Vec<String>) {
        let server = FakeServer::new(move |question| match question {
            _ if question.starts_with("GET /machine/?comp=goalstate ") => (200, "", state.into()),
            _ => (status, "", String::new()),
        });
        let outcome = smol::block_on(report_to(Server { address: server.address(), name: "168.63.129.16" }));
        (outcome, server.heard())
    }

    #[test]
    fn the_wire_server_is_told_which_instance_is_ready() {
        let (outcome, heard) = reported(STATE, 200);
        outcome.unwrap();
        assert!(heard[0].contains("x-ms-version: 2012-11-30"), "{heard:?}");
        let health = &heard[1];
        assert!(health.starts_with("POST /machine?comp=health HTTP/1.1\r\n"), "{health}");
        for part in ["<ContainerId>c-1<", "<InstanceId>0a.web_1<", "<GoalStateIncarnation>1<", "<State>Ready<"] {
            assert!(health.contains(part), "{part}: {health}");
        }
    }

    #[test]
    fn names_that_are_none_are_not_sent_back() {
        let swaps = [
            ("c-1", "c-1&x;"),
            ("c-1", ""),
            ("<ContainerId>c-1</ContainerId>", ""),
            ("<ContainerId>c-1</ContainerId>", "<ContainerId>a</ContainerId><ContainerId>b</ContainerId>"),
            ("0a.web_1", "<State>NotReady</State>"),
        ];
        for (from, to) in swaps {
            let state: &'static str = STATE.replace(from, to).leak();
            let (outcome, heard) = reported(state, 200);
            assert!(matches!(outcome, Err(CloudError::Answer { .. })), "{to}");
            assert_eq!(heard.len(), 1);
        }
        let (outcome, _) = reported(STATE, 503);
        assert!(matches!(outcome, Err(CloudError::Status { status: 503, .. })));
    }
}
