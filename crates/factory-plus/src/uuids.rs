//! The UUIDs that are the same at every site. Those that a site makes for itself are in its own configuration.

/// Applications: each has its own kind of entry.
pub mod application {
    use crate::Uuid;

    /// Object registration: what an object is; made of the object itself.
    pub const REGISTRATION: Uuid = Uuid::constant("cb40bed5-49ad-4443-a7f5-08c75009da8f");
    /// General information: an object's name, for people.
    pub const INFO: Uuid = Uuid::constant("64a8bfa9-7772-45c4-9d1a-9e6290690957");
    /// Sparkplug address information.
    pub const SPARKPLUG_ADDRESS: Uuid = Uuid::constant("8e32801b-f35a-4cbf-a5c3-2af64d3debd7");
    /// Application config schema: the JSON Schema of an application's entries.
    pub const CONFIG_SCHEMA: Uuid = Uuid::constant("dbd8a535-52ba-4f6e-b4f8-9b71aefe09d3");
    /// Service setup: the configuration of the centre's own services.
    pub const SERVICE_CONFIG: Uuid = Uuid::constant("5b47881c-b012-4040-945c-eacafca539b2");
    /// Git repository configuration.
    pub const GIT_REPOSITORY_CONFIGURATION: Uuid = Uuid::constant("38d62a93-b6b4-4f63-bad4-d433e3eaff29");
    /// Edge cluster configuration.
    pub const EDGE_CLUSTER_CONFIGURATION: Uuid = Uuid::constant("bdb13634-0b3d-4e38-a065-9d88c12ee78d");
    /// Edge cluster setup status: private to the cluster manager, but for `ready`.
    pub const EDGE_CLUSTER_SETUP_STATUS: Uuid = Uuid::constant("f6c67e6f-e48e-4f69-b4bb-bfbddcc2a517");
    /// Edge cluster status.
    pub const EDGE_CLUSTER_STATUS: Uuid = Uuid::constant("747a62c9-1b66-4a2e-8dd9-0b70a91b6b75");
    /// Bootstrap script; its one entry's object is the application itself.
    pub const BOOTSTRAP_SCRIPT: Uuid = Uuid::constant("a807d8fc-63ff-48bb-85c7-82b93beb606e");
    /// Flux template; its one entry's object is the application itself.
    pub const FLUX_TEMPLATE: Uuid = Uuid::constant("72804a19-636b-4836-b62b-7ad1476f2b86");
    /// Helm chart template.
    pub const HELM_CHART_TEMPLATE: Uuid = Uuid::constant("729fe070-5e67-4bc7-94b5-afd75cb42b03");
    /// K8s resource template, which the documents call "Helm release" template.
    pub const K8S_RESOURCE_TEMPLATE: Uuid = Uuid::constant("88436128-09a3-4c9c-b7f4-b0e495137265");
    /// Edge deployment.
    pub const EDGE_DEPLOYMENT: Uuid = Uuid::constant("f2b9417a-ef7f-421f-b387-bb8183a48cdb");
    /// Edge Agent config.
    pub const EDGE_AGENT_CONFIG: Uuid = Uuid::constant("aac6f843-cfee-4683-b121-6943bfdf9173");
    /// MQTT permission template: which topics a permission means.
    pub const MQTT_PERMISSION_TEMPLATE: Uuid = Uuid::constant("1266ddf1-156c-4266-9808-d6949418b185");
    /// Write scope: the permission that also allows writing an application's entries, object by object. Ours, not the
    /// original's.
    pub const WRITE_SCOPE: Uuid = Uuid::constant("e90b0d13-5035-4e24-9f28-8a083a48ccbb");
    /// Edge cluster registration: which machine registered a cluster, and by whose word. Ours, not the original's.
    pub const EDGE_CLUSTER_REGISTRATION: Uuid = Uuid::constant("75b2648d-6c8a-4098-8d35-649c02fd8d77");
    /// Command definition.
    pub const COMMAND_DEFINITION: Uuid = Uuid::constant("60e99f28-67fe-4344-a6ab-b1edb8b8e810");
}

/// Classes of objects.
pub mod class {
    use crate::Uuid;

    /// Individuals: objects of rank 0.
    pub const INDIVIDUAL: Uuid = Uuid::constant("2494ae9b-cd87-4c01-98db-437a303b43e9");
    /// Classes of individuals.
    pub const RANK_1: Uuid = Uuid::constant("04a1c90d-2295-4cbe-b33a-74eded62cbf1");
    /// Classes of classes of individuals.
    pub const RANK_2: Uuid = Uuid::constant("705888ce-53fa-434d-afee-274b331d4642");
    /// Classes of those.
    pub const RANK_3: Uuid = Uuid::constant("52b80183-6998-4bf9-9b30-132755e7dede");
    /// Applications.
    pub const APPLICATION: Uuid = Uuid::constant("d319bd87-f42b-4b66-be4f-f82ff48b93f0");
    /// Service functions.
    pub const SERVICE: Uuid = Uuid::constant("265d481f-87a7-4f93-8fc6-53fa64dc11bb");
    /// Special UUIDs.
    pub const SPECIAL: Uuid = Uuid::constant("ddb132e4-5cdd-49c8-b9b1-2f35879eab6d");
    /// Edge clusters.
    pub const EDGE_CLUSTER: Uuid = Uuid::constant("f24d354d-abc1-4e32-98e1-0667b3e40b61");
    /// Helm charts.
    pub const HELM_CHART: Uuid = Uuid::constant("f9be0334-0ff7-43d3-9d8a-188d3e4d472b");
    /// Helm charts that the centre itself needs.
    pub const SYSTEM_HELM_CHART: Uuid = Uuid::constant("a5c54a2e-8f7b-4b2a-9e8d-3f7c9e7d1c6a");
    /// Kinds of Kubernetes resources.
    pub const K8S_RESOURCE_KIND: Uuid = Uuid::constant("487c20bc-d4d8-11f0-b591-7fa91b119c9d");
    /// Git repositories.
    pub const GIT_REPOSITORY: Uuid = Uuid::constant("d25f2afc-1ab8-4d27-b51b-d02314624e3e");
    /// Groups of git repositories.
    pub const GIT_REPOSITORY_GROUP: Uuid = Uuid::constant("b03d4dfe-7e78-4252-8e62-af594cf316c9");
    /// Principals.
    pub const PRINCIPAL: Uuid = Uuid::constant("11614546-b6d7-11ef-aebd-8fbb45451d7c");
    /// Groups of principals.
    pub const PRINCIPAL_GROUP: Uuid = Uuid::constant("c0157038-ccff-11ef-a4db-63c6212e998f");
    /// Types of principals.
    pub const PRINCIPAL_TYPE: Uuid = Uuid::constant("ae17afe0-ccff-11ef-bb70-67807cb4a9df");
    /// Roles.
    pub const ROLE: Uuid = Uuid::constant("f1fabdd1-de90-4399-b3da-ccf6c2b2c08b");
    /// Roles of central services.
    pub const SERVICE_ROLE: Uuid = Uuid::constant("b419cbc2-ab0f-4311-bd9e-f0591f7e88cb");
    /// Roles of edge services.
    pub const EDGE_ROLE: Uuid = Uuid::constant("3ba1d68e-ccf5-11ef-82d9-ef32470538b1");
    /// Roles of people and clients.
    pub const CLIENT_ROLE: Uuid = Uuid::constant("b2053a3e-bdf8-11ef-9423-771a19e4a8a4");
    /// Edge services: the accounts of clusters.
    pub const EDGE_SERVICE: Uuid = Uuid::constant("97756c9a-38e6-4238-b78c-3df6f227a6c9");
    /// Central services.
    pub const CENTRAL_SERVICE: Uuid = Uuid::constant("e463b4ae-a322-46cc-8976-4ba76838e908");
    /// People.
    pub const HUMAN_USER: Uuid = Uuid::constant("8b3e8f35-78e5-4f93-bf21-7238bcb2ba9d");
    /// Edge agents.
    pub const EDGE_AGENT: Uuid = Uuid::constant("00da3c0b-f62b-4761-a689-39ad0c33f864");
    /// Other deployments to edge clusters.
    pub const EDGE_DEPLOYMENT: Uuid = Uuid::constant("e6f6a6e6-f6b2-422a-bc86-2dcb417a362a");
    /// Bridges to a unified namespace.
    pub const UNS_BRIDGE: Uuid = Uuid::constant("178506d2-af52-4c79-8e5d-4958ae7ddfa9");
    /// Groups whose members the cluster manager chooses.
    pub const CLUSTERS_MANAGED_GROUP: Uuid = Uuid::constant("979f7fd9-bbc7-4810-a774-6082c7394db6");
    /// Groups whose members edges choose.
    pub const EDGE_MANAGED_GROUP: Uuid = Uuid::constant("9ba0de4b-056f-4b5e-b966-2d5d85d07767");
    /// Permissions.
    pub const PERMISSION: Uuid = Uuid::constant("8ae784bb-c4b5-4995-9bf6-799b3c7f21ad");
    /// Groups of permissions.
    pub const PERMISSION_GROUP: Uuid = Uuid::constant("ac0d5288-6136-4ced-a372-325fbbcdd70d");
    /// The permissions of one service.
    pub const SERVICE_PERMISSIONS: Uuid = Uuid::constant("b7f0c2f4-ccf5-11ef-be77-777cd4e8cb41");
    /// Permissions that are several.
    pub const COMPOSITE_PERMISSION: Uuid = Uuid::constant("1c567e3c-5519-4418-8682-6086f22fbc13");
}

/// Roles: principals that are members of one hold its grants.
pub mod role {
    use crate::Uuid;

    /// Cluster manager service account.
    pub const CLUSTER_MANAGER: Uuid = Uuid::constant("26d192cf-73c1-4c14-93cf-1e63743bab08");
    /// Enrol service account. Ours, not the original's.
    pub const ENROL_SERVICE: Uuid = Uuid::constant("313722eb-98ad-4e15-a733-d6d1252154b4");
    /// Git server service account.
    pub const GIT_SERVER: Uuid = Uuid::constant("a461ef62-0560-4be2-8d97-1a56916ce4f8");
    /// Administrator.
    pub const ADMINISTRATOR: Uuid = Uuid::constant("10fc06b7-02f5-45f1-b419-a486b6bc13ba");
    /// Sparkplug node.
    pub const SPARKPLUG_NODE: Uuid = Uuid::constant("1d3121a0-aade-4376-8fa3-57ba1460ba76");
    /// Sparkplug reader.
    pub const SPARKPLUG_READER: Uuid = Uuid::constant("f76f8445-ce78-41c5-90ec-5964fb0cd431");
    /// Central monitor.
    pub const CENTRAL_MONITOR: Uuid = Uuid::constant("1bc3dbca-68fe-48d2-9590-3a528c111827");
}

/// Services: what the directory knows them by.
pub mod service {
    use crate::Uuid;

    /// Directory.
    pub const DIRECTORY: Uuid = Uuid::constant("af4a1d66-e6f7-43c4-8a67-0fa3be2b1cf9");
    /// Configuration database.
    pub const CONFIG_DB: Uuid = Uuid::constant("af15f175-78a0-4e05-97c0-2a0bb82b9f3b");
    /// Authorisation.
    pub const AUTH: Uuid = Uuid::constant("cab2642a-f7d9-42e5-8845-8f35affe1fd4");
    /// Cluster manager.
    pub const CLUSTER_MANAGER: Uuid = Uuid::constant("2706aa43-a826-441e-9cec-cd3d4ce623c2");
    /// Git server.
    pub const GIT: Uuid = Uuid::constant("7adf4db0-2e7b-4a68-ab9d-376f4c5ce14b");
    /// MQTT broker.
    pub const MQTT: Uuid = Uuid::constant("feb27ba3-bd2c-4916-9269-79a61ebc4a47");
    /// Command escalation.
    pub const COMMAND_ESCALATION: Uuid = Uuid::constant("78ea7071-24ac-4916-8351-aa3e549d8ccd");
    /// The page where people manage the site.
    pub const MANAGER: Uuid = Uuid::constant("619eecab-742d-4824-8b97-bcae472e5c04");
}

/// Accounts of central services.
pub mod account {
    use crate::Uuid;

    /// The configuration database, as a device and as a principal.
    pub const CONFIG_DB: Uuid = Uuid::constant("36861e8d-9152-40c4-8f08-f51c2d7e3c25");
    /// The directory.
    pub const DIRECTORY: Uuid = Uuid::constant("5cc3b068-938f-4bb2-8ceb-64338a02fbeb");
    /// The git server.
    pub const GIT: Uuid = Uuid::constant("626df296-8156-4c67-8aed-aac70161aa8b");
    /// The MQTT broker.
    pub const MQTT: Uuid = Uuid::constant("2f42daeb-4521-4522-8e19-85dfb73db88e");
    /// The central krbkeys operator.
    pub const KRB_KEYS: Uuid = Uuid::constant("a04b4195-7db4-4480-b3f3-4d22c08b96ea");
    /// The authorisation service's. Ours, not the original's.
    pub const AUTH: Uuid = Uuid::constant("6f0e5d38-4b7a-4c92-a1d4-2e9b8c7f6a51");
    /// The enrol service's. Ours, not the original's.
    pub const ENROL_SERVICE: Uuid = Uuid::constant("af7a7f28-4550-4524-ac57-ae5ef1c628b9");
    /// The cluster manager's. Ours, not the original's.
    pub const CLUSTER_MANAGER: Uuid = Uuid::constant("b95d1c07-3e84-4f6b-8a20-d47c6e1f9b38");
}

/// Permissions.
pub mod permission {
    use crate::Uuid;

    /// All of the configuration database's: a group.
    pub const CONFIG_DB: Uuid = Uuid::constant("c43c7157-a50b-4d2a-ac1a-86ff8e8e88c1");
    /// Read entries of an application.
    pub const READ_CONFIG: Uuid = Uuid::constant("4a339562-cd57-408d-9d1a-6529a383ea4b");
    /// Write entries of an application.
    pub const WRITE_CONFIG: Uuid = Uuid::constant("6c799ccb-d2ad-4715-a2a7-3c8728d6c0bf");
    /// List all objects.
    pub const LIST_OBJECTS: Uuid = Uuid::constant("6b4d73ea-50f1-11f0-9333-132037a152a5");
    /// Create objects of a class.
    pub const CREATE_OBJECT: Uuid = Uuid::constant("ae09e2ba-50ef-11f0-ac03-1f9f5e6548be");
    /// Create objects of a class with a UUID of one's choice.
    pub const CREATE_SPECIFIC_OBJECT: Uuid = Uuid::constant("e3491b9c-50f1-11f0-8e16-e75c8f93227b");
    /// Delete an object.
    pub const DELETE_OBJECT: Uuid = Uuid::constant("6957174b-7b08-45ca-ac5c-c03ab6928a6e");
    /// Read a class's members.
    pub const READ_MEMBERS: Uuid = Uuid::constant("d4fd61da-50ef-11f0-ad24-335234e4c8a2");
    /// Change a class's members.
    pub const WRITE_MEMBERS: Uuid = Uuid::constant("c2759f6e-50ef-11f0-8730-ef0ba0514a0e");
    /// Change what an object is a member of.
    pub const WRITE_MEMBERSHIPS: Uuid = Uuid::constant("e08d89bc-50ef-11f0-8352-83e3d3d35028");
    /// Read a class's subclasses.
    pub const READ_SUBCLASSES: Uuid = Uuid::constant("e6bb9978-50ef-11f0-b3c2-b79b9f64d2ff");
    /// Change a class's subclasses.
    pub const WRITE_SUBCLASSES: Uuid = Uuid::constant("ed11bd2a-50ef-11f0-9f85-df13a1dff9e6");
    /// Change what a class is a subclass of.
    pub const WRITE_SUPERCLASSES: Uuid = Uuid::constant("fb8e5048-50ef-11f0-91c5-7fd3cb373fbb");
    /// Give objects to an owner.
    pub const GIVE_TO: Uuid = Uuid::constant("4eaab346-4d1e-11f0-800e-dfdc061c6a63");
    /// Take objects from an owner.
    pub const TAKE_FROM: Uuid = Uuid::constant("6ad67652-5009-11f0-9404-73b79124c3d5");
    /// Create, delete and give objects: a composite.
    pub const MANAGE_OBJECTS: Uuid = Uuid::constant("f0b7917b-d475-4888-9d5a-2af96b3c26b6");
    /// All of the authorisation service's: a group.
    pub const AUTH: Uuid = Uuid::constant("50b727d4-3faa-40dc-b347-01c99a226c58");
    /// Read grants of a permission.
    pub const READ_ACL: Uuid = Uuid::constant("ba566181-0e8a-405b-b16e-3fb89130fbee");
    /// Make and end grants of a permission.
    pub const MANAGE_ACL: Uuid = Uuid::constant("3a41f5ce-fc08-4669-9762-ec9e71061168");
    /// Read a principal's Kerberos identity.
    pub const READ_KERBEROS: Uuid = Uuid::constant("e8c9c0f7-0d54-4db2-b8d6-cd80c45f6a5c");
    /// Change a principal's Kerberos identity.
    pub const MANAGE_KERBEROS: Uuid = Uuid::constant("327c4cc8-9c46-4e1e-bb6b-257ace37b0f6");
    /// Change a group's members.
    pub const MANAGE_GROUP: Uuid = Uuid::constant("be9b6d47-c845-49b2-b9d5-d87b83f11c3b");
    /// All of the cluster manager's: a group.
    pub const CLUSTERS: Uuid = Uuid::constant("9e07fd33-6400-4662-92c4-4dff1f61f990");
    /// Read a cluster's setup and make bootstrap links.
    pub const MANAGE_CLUSTER: Uuid = Uuid::constant("a40acff8-0c61-4251-bef3-d8d53e50cdd0");
    /// Configure a cluster. Ours, not the original's.
    pub const CONFIGURE_CLUSTER: Uuid = Uuid::constant("4cdf7692-4b4e-4316-8cd7-6d93664730c2");
    /// Say which machine registered a cluster, and why it was admitted: the enrol service's. Ours, not the original's.
    pub const REGISTER_CLUSTER: Uuid = Uuid::constant("fe45b294-ae69-401f-a79a-2e04b45c4426");
    /// Seal secrets for a cluster.
    pub const MANAGE_SECRETS: Uuid = Uuid::constant("07fba27a-0d01-4c07-875b-d25345261d3a");
    /// All of the git server's: a group.
    pub const GIT: Uuid = Uuid::constant("c0c55c78-116e-4526-8ff4-e4595251f76c");
    /// Create repositories.
    pub const GIT_CREATE: Uuid = Uuid::constant("3668660f-f949-4657-be76-21967144c1a2");
    /// Delete repositories.
    pub const GIT_DELETE: Uuid = Uuid::constant("55870092-91b6-4d5e-828f-7637d080bf1c");
    /// Pull from a repository.
    pub const GIT_PULL: Uuid = Uuid::constant("12ecb694-b4b9-4d2a-927e-d100019f7ebe");
    /// Push to a repository.
    pub const GIT_PUSH: Uuid = Uuid::constant("b2d8d437-5060-4202-bcc2-bd2beda09651");
    /// Manage the git server's storage.
    pub const GIT_MANAGE_STORAGE: Uuid = Uuid::constant("7fd8a8c1-6050-4950-97bd-a35bb83ff750");
    /// All of the broker's: a group.
    pub const MQTT: Uuid = Uuid::constant("a637134a-d06b-41e7-ad86-4bf62fde914a");
    /// Publish and be commanded as a Sparkplug node.
    pub const PARTICIPATE_AS_NODE: Uuid = Uuid::constant("a1314953-8226-44f4-8a3e-e87b09310579");
    /// Publish and be commanded for devices of a node.
    pub const REPRESENT_DEVICES: Uuid = Uuid::constant("e82456b3-a7d9-4971-9d8c-fd0be4545ab4");
    /// Read a node's messages.
    pub const READ_NODE: Uuid = Uuid::constant("046d6603-fa62-4208-9400-65d61f8b1ec4");
    /// Read the states of all hosts.
    pub const READ_ALL_STATES: Uuid = Uuid::constant("8790cf3d-b793-423c-b373-8cfcf9f63529");
    /// Read all Sparkplug messages.
    pub const READ_WHOLE_NAMESPACE: Uuid = Uuid::constant("81833dbb-1150-4078-b1db-978c646ba73e");
    /// Command nodes.
    pub const ISSUE_COMMANDS: Uuid = Uuid::constant("50f1e694-7e18-4930-aa59-97cc90a6a1ec");
    /// All of command escalation's: a group.
    pub const COMMAND_ESCALATION: Uuid = Uuid::constant("9584ee09-a35a-4278-bc13-21a8be1f007c");
    /// Ask a node for a rebirth.
    pub const REBIRTH: Uuid = Uuid::constant("fbb9c25d-386d-4966-a325-f16471d9f7be");
    /// Ask a node to reload its configuration.
    pub const RELOAD_CONFIG: Uuid = Uuid::constant("6335f100-e68e-4e4d-b46d-85b42f85a036");
    /// All of the directory's: a group.
    pub const DIRECTORY: Uuid = Uuid::constant("58b5da47-d098-44f7-8c1d-6e4bd800e718");
    /// Advertise a service.
    pub const ADVERTISE_SERVICE: Uuid = Uuid::constant("4db4c39a-f18d-4e83-aeb0-5af2c14ddc2b");
    /// What a consumer of an edge node's data may: a composite.
    pub const EDGE_NODE_CONSUMER: Uuid = Uuid::constant("17a64293-b82d-4db4-af4d-63359bb62934");
    /// Write one cluster's status: its target is the cluster. Ours, not the original's.
    pub const WRITE_EDGE_CLUSTER_STATUS: Uuid = Uuid::constant("5b1b2f2e-7d0a-4a51-9d55-3c2f0c6c8e11");
    /// Write what one object is called: its target is the object. Ours, not the original's.
    pub const NAME_OBJECT: Uuid = Uuid::constant("0d2c3f64-6d0b-4f0e-9d6c-1a5f5b0f7c42");
    /// Read all of one Sparkplug group: its target is what has the group's address. Ours, not the original's.
    pub const READ_GROUP: Uuid = Uuid::constant("c8a4b7f1-92d3-4c1e-8f56-70e1d2b3a496");
}

/// Objects that mean something to every service.
pub mod special {
    use crate::Uuid;

    /// As the target of a grant: everything.
    pub const WILDCARD: Uuid = Uuid::constant("00000000-0000-0000-0000-000000000000");
    /// Factory+ itself.
    pub const FACTORY_PLUS: Uuid = Uuid::constant("11ad7b32-1d32-4c4a-b0c9-fa049208939a");
    /// As the target of a grant: the principal who holds it.
    pub const SELF: Uuid = Uuid::constant("5855a1cc-46d8-4b16-84f8-ab3916ecb230");
    /// As an owner: nobody.
    pub const UNOWNED: Uuid = Uuid::constant("091e796a-65c0-4080-adff-c3ce01a65b2e");
    /// As the target of a grant: what the principal owns.
    pub const MINE: Uuid = Uuid::constant("724c0316-4cfd-11f0-b355-0b70840faae8");
}

/// Schemas and relations in Sparkplug messages, and namespaces of instances made by name.
pub mod sparkplug {
    use crate::Uuid;

    /// Schema: an edge cluster's monitor.
    pub const EDGE_MONITOR: Uuid = Uuid::constant("e3ef732b-ee69-46f0-8d1d-8a9cec432d83");
    /// Schema: a device of a monitor.
    pub const MONITOR_DEVICE: Uuid = Uuid::constant("ab6c58b0-efe9-4e55-bde5-eaa4fd7c95b0");
    /// Schema: a link.
    pub const LINK: Uuid = Uuid::constant("b3c4b273-9528-45de-8842-9f77c9ef272a");
    /// Schema: an alert.
    pub const ALERT: Uuid = Uuid::constant("8853aa15-2228-4309-b98e-e086cefbc72c");
    /// Schema: a service.
    pub const SERVICE: Uuid = Uuid::constant("05688a03-730e-4cda-9932-172e2c62e45c");
    /// Schema: a git server.
    pub const GIT_SERVER: Uuid = Uuid::constant("ee115c26-2ad6-4846-a771-da0cf6401399");
    /// Schema: a git repository.
    pub const GIT_REPOSITORY: Uuid = Uuid::constant("1bc8b1c1-e5e6-4777-814b-67bc58aaad62");
    /// Relation: monitors this cluster.
    pub const CLUSTER_MONITOR: Uuid = Uuid::constant("422d47e0-8761-43da-abd4-4f2adaef0d4a");
    /// Relation: monitors this device.
    pub const DEVICE_MONITOR: Uuid = Uuid::constant("ec916189-f4f9-4fc7-af7e-724cc216e9e9");
    /// Alert: a node is offline.
    pub const OFFLINE_ALERT: Uuid = Uuid::constant("e6eff8b6-7b16-4827-9136-ac5202c0df59");
    /// Alert: a configuration file is bad.
    pub const CONFIG_FILE_ALERT: Uuid = Uuid::constant("bfa87a28-9788-45ab-922f-c4cb9eb9e742");
    /// The prefix of names of metrics' instances.
    pub const METRIC_PREFIX: Uuid = Uuid::constant("8a4dc2f4-2f9f-45fc-b2e9-ed7b9cda6145");
    /// The prefix of names of monitors' instances.
    pub const MONITOR_PREFIX: Uuid = Uuid::constant("87f304b9-77c2-4dee-aaef-9652ed2d7741");
}

/// Objects of the application "K8s resource template".
pub mod k8s_resource {
    use crate::Uuid;

    /// `HelmRelease`.
    pub const HELM_RELEASE: Uuid = Uuid::constant("0c92f608-d4dc-11f0-b2a0-1bc42be2ebc8");
    /// `GitRepository`.
    pub const GIT_REPOSITORY: Uuid = Uuid::constant("03827afc-d4dc-11f0-9645-dfc5bcb16bc6");
}
