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

{{/* A length of time such as 1m30s, in milliseconds. */}}
{{- define "conclave.milliseconds" -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+(ms|h|m|s)" . -1 -}}
{{- $unit := index (dict "h" 3600000 "m" 60000 "s" 1000 "ms" 1) (regexFind "[a-z]+" .) -}}
{{- $sum = add $sum (mul (atoi (regexFind "[0-9]+" .)) $unit) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Refuses lengths of time with which the operator would not start (`operator/src/config.rs`). */}}
{{- define "conclave.checkPeriods" -}}
{{- $authority := .Values.authority -}}
{{- $lifetime := include "conclave.milliseconds" $authority.lifetime | int64 -}}
{{- $overlap := include "conclave.milliseconds" $authority.overlap | int64 -}}
{{- $certificate := include "conclave.milliseconds" $authority.certificateLifetime | int64 -}}
{{- $least := mul 6 (add $overlap $certificate) -}}
{{- if lt $certificate 10000 -}}
{{- fail (printf "authority.certificateLifetime must be at least 10s, and is %s" $authority.certificateLifetime) -}}
{{- end -}}
{{- if eq $overlap 0 -}}
{{- fail "authority.overlap must not be 0" -}}
{{- end -}}
{{- if lt $lifetime $least -}}
{{- fail (printf "authority.lifetime must be at least six times authority.overlap (%s) and authority.certificateLifetime (%s) together, which is %s, and is %s" $authority.overlap $authority.certificateLifetime (duration (div (add $least 999) 1000)) $authority.lifetime) -}}
{{- end -}}
{{- $election := .Values.operator.leaderElection -}}
{{- $lease := include "conclave.milliseconds" $election.leaseDuration | int64 -}}
{{- $deadline := include "conclave.milliseconds" $election.renewDeadline | int64 -}}
{{- $retry := include "conclave.milliseconds" $election.retryPeriod | int64 -}}
{{- if le $lease $deadline -}}
{{- fail (printf "operator.leaderElection.leaseDuration must be longer than renewDeadline (%s), and is %s" $election.renewDeadline $election.leaseDuration) -}}
{{- end -}}
{{- if or (eq $retry 0) (le (mul 5 $deadline) (mul 6 $retry)) -}}
{{- fail (printf "operator.leaderElection.renewDeadline must be more than 1.2 times retryPeriod (%s), which must not be 0, and is %s" $election.retryPeriod $election.renewDeadline) -}}
{{- end -}}
{{- end -}}

{{/* Processor time such as 10m or 0.5, in thousandths. */}}
{{- define "conclave.thousandths" -}}
{{- if hasSuffix "m" . }}{{ trimSuffix "m" . | atoi }}{{ else }}{{ mulf . 1000 | int64 }}{{ end -}}
{{- end -}}

{{/* Memory such as 64Mi, in Ki. */}}
{{- define "conclave.kibibytes" -}}
{{- mul (atoi (regexFind "[0-9]+" .)) (index (dict "Ki" 1 "Mi" 1024 "Gi" 1048576) (regexFind "[A-Z]i" .)) -}}
{{- end -}}

{{/* Refuses resources of sidecars with which the operator would not start (`pods/src/inject/resources.rs`). */}}
{{- define "conclave.checkResources" -}}
{{- $requests := .Values.injector.resources.requests -}}
{{- $limits := .Values.injector.resources.limits -}}
{{- $cpu := include "conclave.thousandths" $requests.cpu | int64 -}}
{{- $memory := include "conclave.kibibytes" $requests.memory | int64 -}}
{{- $memoryLimit := include "conclave.kibibytes" $limits.memory | int64 -}}
{{- if or (lt $cpu 1) (gt $cpu 16000) -}}
{{- fail (printf "injector.resources.requests.cpu must be between 1m and 16, and is %s" $requests.cpu) -}}
{{- end -}}
{{- if or (lt $memory 4096) (gt $memory 16777216) -}}
{{- fail (printf "injector.resources.requests.memory must be between 4Mi and 16Gi, and is %s" $requests.memory) -}}
{{- end -}}
{{- if or (lt $memoryLimit 32768) (gt $memoryLimit 16777216) -}}
{{- fail (printf "injector.resources.limits.memory must be between 32Mi and 16Gi, and is %s" $limits.memory) -}}
{{- end -}}
{{- if gt $memory $memoryLimit -}}
{{- fail (printf "injector.resources.requests.memory must be at most limits.memory (%s), and is %s" $limits.memory $requests.memory) -}}
{{- end -}}
{{- if $limits.cpu -}}
{{- $cpuLimit := include "conclave.thousandths" $limits.cpu | int64 -}}
{{- if or (lt $cpuLimit 50) (gt $cpuLimit 16000) -}}
{{- fail (printf "injector.resources.limits.cpu must be between 50m and 16, and is %s" $limits.cpu) -}}
{{- end -}}
{{- if gt $cpu $cpuLimit -}}
{{- fail (printf "injector.resources.requests.cpu must be at most limits.cpu (%s), and is %s" $limits.cpu $requests.cpu) -}}
{{- end -}}
{{- end -}}
{{- end -}}
