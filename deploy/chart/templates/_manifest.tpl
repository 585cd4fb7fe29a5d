{{- /*
The templates print the manifests of deploy/ with the names and the values of this release in them: (list . FILE
COMPONENT), where the values of a component begin with its name, such as `scheduler_replicas`. What a value does not
change stays as it is in the file.
*/ -}}
{{- define "phalanx.manifest" -}}
{{- $root := index . 0 -}}
{{- $component := index . 2 -}}
{{- $text := $root.Files.Get (printf "manifests/%s.yaml" (index . 1)) -}}
{{- range splitList "\n---\n" (include "phalanx.named" (list $root $text)) }}
{{- $object := fromYaml . -}}
{{- with $object.Error }}{{ fail . }}{{ end -}}
{{- include "phalanx.values" (list $root $object $component) }}
---
{{ toYaml $object }}
{{- end }}
{{- end -}}

{{- define "phalanx.lease" -}}
{{- $names := splitList "," (.Values.custom.scheduler_name | default "volcano") -}}
{{- ternary (first $names) "volcano" (eq (len $names) 1) -}}
{{- end -}}

{{- /* Text of deploy/ with this release, its namespace, its schedulers and their lease in the place of the names there. */ -}}
{{- define "phalanx.named" -}}
{{- $root := index . 0 -}}
{{- $names := splitList "," ($root.Values.custom.scheduler_name | default "volcano") -}}
{{- $lease := include "phalanx.lease" $root -}}
{{- index . 1 | replace "volcano-system" $root.Release.Namespace
  | replace "phalanx-" (printf "%s-" $root.Release.Name)
  | replace "in ['volcano']" (printf "in ['%s']" (join "', '" $names))
  | replace "resourceNames: [volcano]" (printf "resourceNames: [%s]" $lease) -}}
{{- end -}}

{{- /* Puts the values into an object; prints nothing. */ -}}
{{- define "phalanx.values" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- $component := index . 2 -}}
{{- $custom := $root.Values.custom -}}
{{- include "phalanx.merge" (list $object.metadata "labels" $custom.common_labels) -}}
{{- if eq $object.kind "Deployment" -}}
  {{- include "phalanx.deployment" . -}}
{{- else if and (eq $object.kind "ConfigMap") $custom.scheduler_config_override -}}
  {{- $_ := set $object.data "scheduler.conf" $custom.scheduler_config_override -}}
{{- else if eq $object.kind "NetworkPolicy" -}}
  {{- $peer := first (first $object.spec.ingress).from -}}
  {{- $_ := set $peer.namespaceSelector.matchLabels "kubernetes.io/metadata.name" $custom.prometheus_namespace -}}
  {{- if $custom.scheduler_api_enable -}}
    {{- $rule := dict "ports" (list (dict "protocol" "TCP" "port" "api")) -}}
    {{- include "phalanx.set" (list $rule "from" $custom.scheduler_api_from) -}}
    {{- $_ := set $object.spec "ingress" (append $object.spec.ingress $rule) -}}
  {{- end -}}
{{- else if eq $object.kind "Service" -}}
  {{- include "phalanx.set" (list $object.spec "ipFamilyPolicy" $root.Values.service.ipFamilyPolicy) -}}
  {{- include "phalanx.set" (list $object.spec "ipFamilies" $root.Values.service.ipFamilies) -}}
  {{- if and (eq $component "scheduler") $custom.scheduler_api_enable -}}
    {{- $_ := set $object.spec "ports" (append $object.spec.ports (dict "name" "api" "port" 8082 "targetPort" "api")) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "phalanx.deployment" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- $component := index . 2 -}}
{{- $custom := $root.Values.custom -}}
{{- $template := $object.spec.template -}}
{{- $pod := $template.spec -}}
{{- $container := first $pod.containers -}}
{{- $value := dict -}}
{{- range $name := list "replicas" "metrics_enable" "labels" "podLabels" "resources" "main_csc" -}}
  {{- $_ := set $value $name (get $custom (printf "%s_%s" $component $name)) -}}
{{- end -}}
{{- range $name := list "affinity" "tolerations" "ns" "sc" -}}
  {{- $own := get $custom (printf "%s_%s" $component $name) -}}
  {{- $_ := set $value $name (or $own (get $custom (printf "default_%s" $name))) -}}
{{- end -}}
{{- $_ := set $object.spec "replicas" (int $value.replicas) -}}
{{- include "phalanx.merge" (list $object.metadata "labels" $value.labels) -}}
{{- include "phalanx.merge" (list $template.metadata "labels" (merge dict (default dict $value.podLabels) (default dict $custom.common_labels))) -}}
{{- if not $value.metrics_enable -}}{{- $_ := unset $template.metadata "annotations" -}}{{- end -}}
{{- include "phalanx.set" (list $pod "affinity" $value.affinity) -}}
{{- include "phalanx.set" (list $pod "tolerations" $value.tolerations) -}}
{{- include "phalanx.set" (list $pod "nodeSelector" $value.ns) -}}
{{- include "phalanx.set" (list $pod "securityContext" $value.sc) -}}
{{- with $root.Values.basic.image_pull_secret -}}{{- $_ := set $pod "imagePullSecrets" (list (dict "name" .)) -}}{{- end -}}
{{- include "phalanx.set" (list $container "imagePullPolicy" $root.Values.basic.image_pull_policy) -}}
{{- include "phalanx.set" (list $container "resources" $value.resources) -}}
{{- include "phalanx.merge" (list $container "securityContext" (or $value.main_csc $custom.default_csc)) -}}
{{- $_ := set $container "image" (include "phalanx.image" (list $root.Values.basic $component)) -}}
{{- $_ := set $container "args" (fromYamlArray (include "phalanx.args" (list $root $container.args $component))) -}}
{{- if eq $component "scheduler" -}}
  {{- if $custom.scheduler_api_enable -}}
    {{- $_ := set $container "ports" (append $container.ports (dict "name" "api" "containerPort" 8082)) -}}
  {{- end -}}
  {{- if $custom.scheduler_journal_enable -}}{{- include "phalanx.journal" (list $pod $container $custom) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A volume for the journal. Pods that share a claim write to a folder each, and may by their group. */ -}}
{{- define "phalanx.journal" -}}
{{- $pod := index . 0 -}}
{{- $container := index . 1 -}}
{{- $custom := index . 2 -}}
{{- $volume := dict "name" "journal" "emptyDir" (dict "sizeLimit" $custom.scheduler_journal_size) -}}
{{- $mount := dict "name" "journal" "mountPath" "/var/lib/phalanx" -}}
{{- with $custom.scheduler_journal_claim -}}
  {{- $volume = dict "name" "journal" "persistentVolumeClaim" (dict "claimName" .) -}}
  {{- $_ := set $mount "subPathExpr" "$(POD_NAME)" -}}
  {{- $_ := set $pod "securityContext" (merge dict (default dict $pod.securityContext) (dict "fsGroup" 65532)) -}}
{{- end -}}
{{- $_ := set $pod "volumes" (append $pod.volumes $volume) -}}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts $mount) -}}
{{- end -}}

{{- define "phalanx.image" -}}
{{- $basic := index . 0 -}}
{{- $name := get $basic (printf "%s_image_name" (index . 1)) -}}
{{- with $basic.image_registry }}{{ . }}/{{ end }}{{ $name -}}
{{- if $basic.image_digest }}@{{ $basic.image_digest }}{{ else }}:{{ $basic.image_tag_version }}{{ end -}}
{{- end -}}

{{- /* The arguments of the file and what the values add to them, as a YAML list. */ -}}
{{- define "phalanx.args" -}}
{{- $root := index . 0 -}}
{{- $args := index . 1 -}}
{{- $component := index . 2 -}}
{{- $custom := $root.Values.custom -}}
{{- if and (not $custom.leader_elect_enable) (gt (int (get $custom (printf "%s_replicas" $component))) 1) -}}
  {{- fail (printf "custom.%s_replicas: several replicas need custom.leader_elect_enable: true; expected 1" $component) -}}
{{- end -}}
{{- if not (get $custom (printf "%s_metrics_enable" $component)) -}}{{- $args = without $args "--enable-metrics=true" -}}{{- end -}}
{{- with $custom.scheduler_name -}}{{- $args = append $args (printf "--scheduler-name=%s" .) -}}{{- end -}}
{{- if not $custom.leader_elect_enable -}}{{- $args = append $args "--leader-elect=false" -}}{{- end -}}
{{- if ne $root.Release.Namespace "volcano-system" -}}
  {{- $args = append $args (printf "--leader-elect-resource-namespace=%s" $root.Release.Namespace) -}}
{{- end -}}
{{- if eq $component "scheduler" -}}
  {{- if $custom.scheduler_api_enable -}}{{- $args = append $args "--api-address=:8082" -}}{{- end -}}
  {{- if $custom.scheduler_journal_enable -}}{{- $args = append $args "--journal-path=/var/lib/phalanx/journal" -}}{{- end -}}
  {{- if $custom.scheduler_journal_inputs -}}
    {{- if not $custom.scheduler_journal_enable -}}
      {{- fail "custom.scheduler_journal_inputs: expected custom.scheduler_journal_enable: true beside it" -}}
    {{- end -}}
    {{- $args = append $args "--journal-inputs" -}}
  {{- end -}}
{{- end -}}
{{- $flags := dict "schedule_period" "--schedule-period" "kube_api_qps" "--kube-api-qps" "kube_api_burst" "--kube-api-burst"
  "percentage_nodes_to_find" "--percentage-nodes-to-find" "log_level" "--v" -}}
{{- range $name := keys $flags | sortAlpha -}}
  {{- $value := get $custom (printf "%s_%s" $component $name) -}}
  {{- if not (has (toString $value) (list "" "<nil>")) -}}{{- $args = append $args (printf "%s=%v" (get $flags $name) $value) -}}{{- end -}}
{{- end -}}
{{- toYaml (concat $args (get $custom (printf "%s_args" $component))) -}}
{{- end -}}

{{- /* (list MAP KEY VALUE): sets a value that is given. */ -}}
{{- define "phalanx.set" -}}
{{- if index . 2 -}}{{- $_ := set (index . 0) (index . 1) (index . 2) -}}{{- end -}}
{{- end -}}

{{- /* (list MAP KEY ENTRIES): adds entries that are given to the mapping under a key. */ -}}
{{- define "phalanx.merge" -}}
{{- $old := get (index . 0) (index . 1) | default dict -}}
{{- if index . 2 -}}{{- $_ := set (index . 0) (index . 1) (mustMergeOverwrite (deepCopy $old) (index . 2)) -}}{{- end -}}
{{- end -}}
