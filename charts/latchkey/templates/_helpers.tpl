{{- /* The labels of everything here. */ -}}
{{- define "latchkey.labels" -}}
labels:
    app.kubernetes.io/name: latchkey
    app.kubernetes.io/instance: {{ .Release.Name }}
    app.kubernetes.io/managed-by: {{ .Release.Service }}
    helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* Who the rights are for: a service account is a user as well. */ -}}
{{- define "latchkey.service" -}}
- {kind: User, apiGroup: rbac.authorization.k8s.io, name: {{ .Values.user | quote }}}
{{- end -}}

{{- /* The group of the bootstrap tokens that tickets carry, as the join service makes them. kubeadm binds nothing to it, so that nothing
approves its requests but the join service. */ -}}
{{- define "latchkey.group" -}}
system:bootstrappers:latchkey
{{- end -}}

{{- /* Who the policies hold to what it is for. */ -}}
{{- define "latchkey.byService" -}}
matchConditions:
  - name: by-the-join-service
    expression: request.userInfo.username == '{{ .Values.user }}'
{{- end -}}
