{{- /* The labels of everything here. */ -}}
{{- define "edge.labels" -}}
app.kubernetes.io/part-of: edge-cluster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* Name, namespace and labels: (dict "root" $ "name" NAME). */ -}}
{{- define "edge.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "edge.labels" .root | nindent 2 }}
  app.kubernetes.io/name: {{ .name }}
{{- end -}}

{{- /* An image: (dict "root" $ "name" NAME). */ -}}
{{- define "edge.image" -}}
{{- $images := .root.Values.images -}}
{{- $digest := get $images.digests .name -}}
{{- if $digest -}}
{{ printf "%s%s@%s" $images.prefix .name $digest | quote }}
{{- else -}}
{{ printf "%s%s:%s" $images.prefix .name .root.Chart.AppVersion | quote }}
{{- end -}}
{{- end -}}

{{- /* A principal of this cluster: (dict "root" $ "role" ROLE). */ -}}
{{- define "edge.principal" -}}
{{ printf "op1%s/%s@%s" .role .root.Values.cluster.name .root.Values.krb5.realm }}
{{- end -}}

{{- /* The sections that every program's configuration has. */ -}}
{{- define "edge.config" -}}
{{- $centre := dict "directory" .Values.cluster.directory -}}
{{- if .Values.centre.insecure -}}
{{- $_ := set $centre "insecure" true -}}
{{- end -}}
{{- if .Values.centre.authority -}}
{{- $_ := set $centre "authority" "/etc/latchkey/centre/ca.pem" -}}
{{- end -}}
{{- $cluster := dict "uuid" .Values.cluster.uuid "name" .Values.cluster.name -}}
{{- dict "centre" $centre "realm" .Values.krb5.realm "cluster" $cluster "namespace" .Release.Namespace | toJson -}}
{{- end -}}

{{- /* The section `account`: (dict "root" $ "role" ROLE "file" FILE). */ -}}
{{- define "edge.account" -}}
{{- dict "principal" (include "edge.principal" .) "password_file" .file | toJson -}}
{{- end -}}

{{- /* Of a pod: what is the same in all. (dict "root" $ "name" NAME) */ -}}
{{- define "edge.pod" -}}
serviceAccountName: {{ .name }}
enableServiceLinks: false
# kubeadm keeps others' pods off control planes, and an edge may be one machine.
tolerations:
  - {key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {name: {{ . | quote }}}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- /* Of a container: what is the same in all. (dict "root" $ "name" NAME "args" ARGUMENTS "resources" RESOURCES) */ -}}
{{- define "edge.container" -}}
name: {{ .name }}
image: {{ include "edge.image" . }}
imagePullPolicy: {{ .root.Values.images.pullPolicy }}
args: {{ concat .args (list "--config" (printf "/etc/latchkey/%s.json" .name)) | toJson }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- with .resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* The volume with the configuration: (dict "root" $ "name" NAME "more" KEYS). */ -}}
{{- define "edge.volume" -}}
name: config
configMap:
  name: {{ .name }}-config
  items:
    - {key: {{ .name }}.json, path: {{ .name }}.json}
    {{- range .more }}
    - {key: {{ . }}, path: {{ . }}}
    {{- end }}
    {{- if .root.Values.centre.authority }}
    - {key: ca.pem, path: centre/ca.pem}
    {{- end }}
{{- end -}}

{{- /* The centre's authority, as an entry of a ConfigMap. */ -}}
{{- define "edge.authority" -}}
{{- with .Values.centre.authority }}
ca.pem: {{ . | quote }}
{{- end }}
{{- end -}}
