{{- define "conclave.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* How the names of all objects begin: the release's name, with the chart's if it lacks that. Short
enough for `-operator-metrics` behind it: the name of a Service has at most 63 characters. */}}
{{- define "conclave.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "conclave.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 46 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "conclave.operator" -}}
{{- include "conclave.fullname" . }}-operator
{{- end -}}

{{/* What selects the operator's pods. It never changes for a release: selectors are immutable. */}}
{{- define "conclave.selectorLabels" -}}
app.kubernetes.io/name: {{ include "conclave.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* The labels of every object that belongs to the operator. */}}
{{- define "conclave.labels" -}}
{{ include "conclave.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: conclave
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The one image, by digest if there is one. */}}
{{- define "conclave.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}

{{- define "conclave.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "conclave.operator" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Whether cert-manager makes the certificate of the webhook: a non-empty text for yes. */}}
{{- define "conclave.certManager" -}}
{{- if and .Values.injector.enabled (eq .Values.certificates.provider "CertManager") -}}
yes
{{- end -}}
{{- end -}}

{{/* The Secret in which cert-manager keeps it. */}}
{{- define "conclave.webhookSecret" -}}
{{- include "conclave.operator" . }}-webhook
{{- end -}}

{{/*
Whether what the Prometheus Operator reads is to be rendered: a non-empty text for yes.
Takes its values (`monitor`), its kind (`kind`) and the root (`root`).
*/}}
{{- define "conclave.rendersMonitor" -}}
{{- $isKnown := .root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind) -}}
{{- if .monitor.enabled -}}
{{- if or $isKnown (eq .monitor.renderMode "alwaysRender") -}}
yes
{{- else if eq .monitor.renderMode "failIfMissing" -}}
{{- fail (printf "the cluster does not know the kind %s: install the Prometheus Operator first" .kind) -}}
{{- end -}}
{{- end -}}
{{- end -}}
