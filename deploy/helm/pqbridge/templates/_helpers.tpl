{{/* The name of all objects: that of the release. */}}
{{- define "pqbridge.name" -}}
{{ default .Release.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* The name of the Service by which nodes find each other. */}}
{{- define "pqbridge.nodes" -}}
{{ include "pqbridge.name" . }}-nodes
{{- end }}

{{- define "pqbridge.selector" -}}
app.kubernetes.io/name: pqbridge
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pqbridge.labels" -}}
{{ include "pqbridge.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "pqbridge.replicas" -}}
{{ default (get (dict "single" 1 "cluster" 3 "foundationdb" 2) .Values.mode) .Values.replicas }}
{{- end }}

{{/* The Secret with the certificates of the nodes. */}}
{{- define "pqbridge.routes" -}}
{{ default (printf "%s-routes" (include "pqbridge.name" .)) .Values.cluster.tls.secretName }}
{{- end }}

{{/* The nodes of a cluster: <name>=<address>, so that a name stays when the Service gets another one. */}}
{{- define "pqbridge.members" -}}
{{- $name := include "pqbridge.name" . -}}
{{- $nodes := include "pqbridge.nodes" . -}}
{{- range $i := until (int (include "pqbridge.replicas" .)) -}}
{{ if $i }},{{ end }}{{ $name }}-{{ $i }}={{ $name }}-{{ $i }}.{{ $nodes }}
{{- end -}}
{{- end }}

{{/* The host names under which HTTP answers: those of the Service. A name without a dot always works. */}}
{{- define "pqbridge.hosts" -}}
{{- $name := printf "%s.%s" (include "pqbridge.name" .) .Release.Namespace -}}
{{ concat (list $name (printf "%s.svc" $name) (printf "%s.svc.%s" $name .Values.clusterDomain)) .Values.http.hosts | join "," }}
{{- end }}

{{- define "pqbridge.scheme" -}}
{{ if .Values.http.tlsSecret }}https{{ else }}http{{ end }}
{{- end }}

{{/* The bytes of an amount: 512Mi and 1.5G of Kubernetes, 1000MiB of Go; with binary those of pqd, whose 8G are 8Gi. */}}
{{- define "pqbridge.bytes" -}}
{{- $text := toString .of -}}
{{- $number := regexFind "^[0-9.]+(e[+]?[0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text | trimSuffix "B" -}}
{{- $base := ternary 1024.0 1000.0 (or .binary (hasSuffix "i" $unit)) -}}
{{- $bytes := float64 $number -}}
{{- range until (int (get (dict "k" 1 "m" 2 "g" 3 "t" 4 "p" 5 "e" 6) (trimSuffix "i" $unit | lower))) }}{{ $bytes = mulf $bytes $base }}{{ end -}}
{{ $bytes }}
{{- end }}

{{/* The ports of the NATS servers at a URL, or at several. */}}
{{- define "pqbridge.natsPorts" -}}
{{- range $i, $url := splitList "," . -}}
{{- $url = trim $url -}}
{{- $scheme := ternary (first (splitList "://" $url)) "nats" (contains "://" $url) -}}
{{ if $i }} {{ end }}{{ regexFind ":[0-9]+/?$" $url | trimAll ":/" | default (get (dict "ws" "80" "wss" "443") $scheme) | default "4222" }}
{{- end -}}
{{- end }}

{{/* What no pqd would start with: said before anything is installed. */}}
{{- define "pqbridge.check" -}}
{{- $v := .Values -}}
{{- $n := int (include "pqbridge.replicas" .) -}}
{{- if and (eq $v.mode "single") (ne $n 1) }}{{ fail "mode single has one replica, since a store belongs to one process: mode cluster has three" }}{{ end -}}
{{- if and (eq $v.mode "cluster") (or (lt $n 3) (eq (mod $n 2) 0)) }}{{ fail "mode cluster needs an odd number of replicas, 3 or more" }}{{ end -}}
{{- if and (eq $v.mode "cluster") $v.nats.url }}{{ fail "mode cluster has NATS servers of its own: leave nats.url empty" }}{{ end -}}
{{- if and (eq $v.mode "cluster") (not $v.cluster.sharedSecret.name) }}{{ fail "mode cluster needs cluster.sharedSecret.name" }}{{ end -}}
{{- if and (eq $v.mode "cluster") (not $v.cluster.tls.secretName) (not $v.cluster.tls.certManager.issuer.name) }}{{ fail "mode cluster needs cluster.tls.secretName, or cluster.tls.certManager.issuer.name" }}{{ end -}}
{{- if and (eq $v.mode "foundationdb") (not $v.nats.url) }}{{ fail "mode foundationdb needs nats.url, the servers that all bridges share" }}{{ end -}}
{{- if and (eq $v.mode "foundationdb") (not $v.foundationdb.configMap.name) (not $v.foundationdb.secret.name) }}{{ fail "mode foundationdb needs foundationdb.configMap.name, or foundationdb.secret.name" }}{{ end -}}
{{- if and (not $v.nats.passwordSecret.name) (not $v.nats.credentialsSecret.name) }}{{ fail "pqd needs a login: nats.passwordSecret.name, or nats.credentialsSecret.name. kubectl create secret generic pqd-login --from-literal=password=\"$(openssl rand -hex 32)\"" }}{{ end -}}
{{- if and (not $v.nats.url) (not $v.nats.configSecret.name) (not $v.nats.passwordSecret.name) }}{{ fail "the server inside needs nats.passwordSecret.name, or nats.configSecret.name" }}{{ end -}}
{{- if and $v.networkPolicy.enabled (not $v.networkPolicy.egress) (or (eq $v.mode "foundationdb") (hasKey $v.settings "PQ_REMOTES")) }}{{ fail "networkPolicy.egress is empty: expected a rule that lets pqd reach FoundationDB, and the remotes of PQ_REMOTES" }}{{ end -}}
{{- $log := include "pqbridge.bytes" (dict "of" $v.cluster.maxBytes "binary" true) | float64 -}}
{{- $volume := include "pqbridge.bytes" (dict "of" $v.storage.size "binary" false) | float64 -}}
{{- if and (eq $v.mode "cluster") (ge $log $volume) }}{{ fail (printf "cluster.maxBytes is %s, and storage.size %s: expected less, since a node's copy of the store is on the volume beside the log" $v.cluster.maxBytes $v.storage.size) }}{{ end -}}
{{- with (($v.resources).limits).memory -}}
{{- $heap := include "pqbridge.bytes" (dict "of" $v.goMemLimit "binary" true) | float64 -}}
{{- $memory := include "pqbridge.bytes" (dict "of" . "binary" false) | float64 -}}
{{- if ge $heap $memory }}{{ fail (printf "goMemLimit is %s, and resources.limits.memory %v: expected about two thirds of the limit, since Go does not count the store's caches" $v.goMemLimit .) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* The environment of pqd. */}}
{{- define "pqbridge.env" -}}
{{- $v := .Values -}}
{{- if eq $v.mode "single" }}
- { name: PQ_STORE, value: "local:/data" }
{{- else if eq $v.mode "cluster" }}
- { name: PQ_STORE, value: "jetstream:pq?max_bytes={{ $v.cluster.maxBytes }}" }
- { name: PQ_CLUSTER, value: {{ include "pqbridge.members" . | quote }} }
- { name: PQ_NODE, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
- { name: PQ_DATA, value: /data }
- { name: PQ_CLUSTER_SECRET, value: /etc/pqd/shared/{{ $v.cluster.sharedSecret.key }} }
- { name: PQ_CLUSTER_CA, value: /etc/pqd/routes/ca.crt }
- { name: PQ_CLUSTER_CERT, value: /etc/pqd/routes/tls.crt }
- { name: PQ_CLUSTER_KEY, value: /etc/pqd/routes/tls.key }
{{- else }}
- { name: PQ_STORE, value: "fdb:/cluster/fdb.cluster{{ with $v.foundationdb.prefix }}?prefix={{ . }}{{ end }}" }
{{- end }}
{{- if $v.nats.url }}
- { name: PQ_LISTEN, value: "" } # no server of its own, whatever the image says
- { name: NATS_URL, value: {{ $v.nats.url | quote }} }
{{- with $v.nats.caSecret }}{{ if .name }}
- { name: NATS_CA, value: /etc/pqd/ca/{{ .key }} }
{{- end }}{{ end }}
{{- else }}
- { name: PQ_LISTEN, value: "0.0.0.0:4222" }
{{- with $v.nats.configSecret }}{{ if .name }}
- { name: PQ_NATS_CONFIG, value: /etc/pqd/nats/{{ .key }} }
{{- end }}{{ end }}
{{- end }}
{{- if $v.nats.credentialsSecret.name }}
- { name: NATS_CREDS, value: /etc/pqd/credentials/{{ $v.nats.credentialsSecret.key }} }
{{- else }}
- { name: NATS_USER, value: {{ $v.nats.user | quote }} }
- { name: NATS_PASSWORD, valueFrom: { secretKeyRef: { name: {{ $v.nats.passwordSecret.name | quote }}, key: {{ $v.nats.passwordSecret.key | quote }} } } }
{{- end }}
- { name: PQ_HTTP, value: "0.0.0.0:8622" }
- { name: PQ_HTTP_HOSTS, value: {{ include "pqbridge.hosts" . | quote }} }
{{- with $v.http.console }}
- { name: PQ_CONSOLE, value: {{ . | quote }} }
{{- end }}
{{- with $v.http.tokenSecret }}{{ if .name }}
- { name: PQ_CONSOLE_TOKEN, value: /etc/pqd/token/{{ .key }} }
{{- end }}{{ end }}
{{- if $v.http.tlsSecret }}
- { name: PQ_HTTP_CERT, value: /etc/pqd/http/tls.crt }
- { name: PQ_HTTP_KEY, value: /etc/pqd/http/tls.key }
{{- end }}
- { name: PQ_LOG, value: json }
- { name: GOMEMLIMIT, value: {{ $v.goMemLimit | quote }} }
{{- range $name, $value := $v.settings }}
- { name: {{ $name }}, value: {{ $value | toString | quote }} }
{{- end }}
{{- with $v.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Secrets as files: a list of {name, path if it is another, secret, items}. */}}
{{- define "pqbridge.secrets" -}}
{{- $v := .Values -}}
{{- $all := list -}}
{{- if eq $v.mode "cluster" -}}
{{- $all = append $all (dict "name" "shared" "secret" $v.cluster.sharedSecret.name "keys" (list $v.cluster.sharedSecret.key)) -}}
{{- $all = append $all (dict "name" "routes" "secret" (include "pqbridge.routes" .) "keys" (list "ca.crt" "tls.crt" "tls.key")) -}}
{{- end -}}
{{- range $name, $of := dict "ca" $v.nats.caSecret "credentials" $v.nats.credentialsSecret "nats" $v.nats.configSecret "token" $v.http.tokenSecret -}}
{{- if and $of.name (or (ne $name "ca") $v.nats.url) (or (ne $name "nats") (not $v.nats.url)) -}}
{{- /* A configuration may name further files of its Secret, such as certificates. */ -}}
{{- $all = append $all (dict "name" $name "secret" $of.name "keys" (ternary list (list $of.key) (eq $name "nats"))) -}}
{{- end -}}
{{- end -}}
{{- if $v.http.tlsSecret -}}
{{- $all = append $all (dict "name" "http" "secret" $v.http.tlsSecret "keys" (list "tls.crt" "tls.key")) -}}
{{- end -}}
{{- range $v.fileSecrets -}}
{{- $all = append $all (dict "name" (printf "files-%s" . | replace "." "-" | trunc 63 | trimSuffix "-") "path" (printf "files/%s" .) "secret" . "keys" list) -}}
{{- end -}}
{{ toJson (dict "all" $all) }}
{{- end }}

{{- define "pqbridge.mounts" -}}
{{- range (include "pqbridge.secrets" . | fromJson).all }}
- { name: {{ .name }}, mountPath: /etc/pqd/{{ default .name .path }}, readOnly: true }
{{- end }}
{{- end }}

{{- define "pqbridge.volumes" -}}
{{- range (include "pqbridge.secrets" . | fromJson).all }}
- name: {{ .name }}
  secret:
    secretName: {{ .secret | quote }}
    defaultMode: 0440
    {{- with .keys }}
    items:
      {{- range . }}
      - { key: {{ . | quote }}, path: {{ . | quote }} }
      {{- end }}
    {{- end }}
{{- end }}
{{- end }}

{{- define "pqbridge.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* The pod of all modes. */}}
{{- define "pqbridge.pod" -}}
{{- $v := .Values -}}
metadata:
  labels:
    {{- include "pqbridge.selector" . | nindent 4 }}
    {{- with $v.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    kubectl.kubernetes.io/default-container: pqd
    {{- if not $v.serviceMonitor.enabled }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "8622"
    prometheus.io/scheme: {{ include "pqbridge.scheme" . }}
    {{- end }}
    {{- with $v.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false # no variables of other Services, such as PQ_…_PORT of one called pq-…
  serviceAccountName: {{ $v.serviceAccountName }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $v.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: 15 # pqd stops within 10 s
  {{- if ne $v.mode "single" }}
  affinity:
    podAntiAffinity:
      {{- if eq (default (ternary "required" "preferred" (eq $v.mode "cluster")) $v.spread.hosts) "required" }}
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector: { matchLabels: { {{- include "pqbridge.selector" . | replace "\n" ", " -}} } }
      {{- else }}
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector: { matchLabels: { {{- include "pqbridge.selector" . | replace "\n" ", " -}} } }
      {{- end }}
  topologySpreadConstraints:
    - topologyKey: topology.kubernetes.io/zone
      maxSkew: 1
      whenUnsatisfiable: {{ $v.spread.zones }}
      labelSelector: { matchLabels: { {{- include "pqbridge.selector" . | replace "\n" ", " -}} } }
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  {{- if eq $v.mode "foundationdb" }}
  # FoundationDB's client writes to the cluster file when coordinators change, so it gets a copy.
  initContainers:
    - name: cluster-file
      image: "{{ $v.image.repository }}:{{ default (.Chart.AppVersion | replace "+" "-") $v.image.tag }}"
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [cp, /config/fdb.cluster, /cluster/fdb.cluster]
      resources:
        requests: { cpu: 10m, memory: 32Mi }
        limits: { memory: 32Mi }
      securityContext: {{ include "pqbridge.confined" . | nindent 8 }}
      volumeMounts:
        - { name: config, mountPath: /config, readOnly: true }
        - { name: cluster, mountPath: /cluster }
  {{- end }}
  containers:
    - name: pqd
      image: "{{ $v.image.repository }}:{{ default (.Chart.AppVersion | replace "+" "-") $v.image.tag }}"
      imagePullPolicy: {{ $v.image.pullPolicy }}
      env: {{- include "pqbridge.env" . | nindent 8 }}
      ports:
        {{- if not $v.nats.url }}
        - { name: nats, containerPort: 4222 }
        {{- end }}
        {{- if eq $v.mode "cluster" }}
        - { name: routes, containerPort: 6222 }
        {{- end }}
        - { name: http, containerPort: 8622 }
      startupProbe: # opening a large store may take a while
        httpGet: { path: /healthz, port: http, scheme: {{ include "pqbridge.scheme" . | upper }} }
        periodSeconds: 2
        timeoutSeconds: 3
        failureThreshold: 60
      livenessProbe: # a pqd that waits for others lives; a failure of less than a minute needs no restart
        httpGet: { path: /healthz, port: http, scheme: {{ include "pqbridge.scheme" . | upper }} }
        periodSeconds: 10
        timeoutSeconds: 3
        failureThreshold: 6
      readinessProbe: # a follower is ready
        httpGet: { path: /readyz, port: http, scheme: {{ include "pqbridge.scheme" . | upper }} }
        periodSeconds: 5
        timeoutSeconds: 3
      resources: {{ toYaml $v.resources | nindent 8 }}
      securityContext: {{ include "pqbridge.confined" . | nindent 8 }}
      volumeMounts:
        {{- if eq $v.mode "foundationdb" }}
        - { name: cluster, mountPath: /cluster }
        {{- else }}
        - { name: data, mountPath: /data }
        {{- end }}
        {{- include "pqbridge.mounts" . | nindent 8 }}
  {{- $secrets := include "pqbridge.volumes" . | trim }}
  {{- if or $secrets (eq $v.mode "foundationdb") }}
  volumes:
    {{- if eq $v.mode "foundationdb" }}
    - name: cluster
      emptyDir: {}
    - name: config
      {{- if $v.foundationdb.secret.name }}
      secret:
        secretName: {{ $v.foundationdb.secret.name | quote }}
        items: [{ key: {{ $v.foundationdb.secret.key | quote }}, path: fdb.cluster }]
      {{- else }}
      configMap:
        name: {{ $v.foundationdb.configMap.name | quote }}
        items: [{ key: {{ $v.foundationdb.configMap.key | quote }}, path: fdb.cluster }]
      {{- end }}
    {{- end }}
    {{- with $secrets }}{{ . | nindent 4 }}{{ end }}
  {{- end }}
{{- end }}
