#!/bin/sh
# Work pool, deployments and the automation, on the server that PREFECT_API_URL names. May be run
# again; run it in the folder that relative paths in the deployments mean.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefect work-pool create knnoise --type process --overwrite
prefect --no-prompt deploy --prefect-file "$here/prefect.yaml" --name weekly --name nightly
prefect automation inspect knnoise-crash-silent-runs >/dev/null 2>&1 ||
    prefect automation create --from-file "$here/automations.yaml"
