// UUIDs that are the same at every site.

export const APPLICATION = {
  info: "64a8bfa9-7772-45c4-9d1a-9e6290690957",
  edgeClusterConfiguration: "bdb13634-0b3d-4e38-a065-9d88c12ee78d",
  helmChartTemplate: "729fe070-5e67-4bc7-94b5-afd75cb42b03",
  edgeDeployment: "f2b9417a-ef7f-421f-b387-bb8183a48cdb",
};

export const CLASS = {
  edgeCluster: "f24d354d-abc1-4e32-98e1-0667b3e40b61",
  edgeAgent: "00da3c0b-f62b-4761-a689-39ad0c33f864",
};
