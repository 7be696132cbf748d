"""Run a CronJob for each Backup, and say on a Backup why it cannot be read.

The server refuses a Backup that the definition forbids. Those that were stored before it did so
remain in the cluster: they get a condition and an Event, and all others their CronJob.

    pyinformer crd backup_operator:Backup | kubectl apply -f -
    python backup_operator.py
"""

import logging
from typing import Annotated, Any

import pydantic

import pyinformer
from pyinformer import Cluster, JSONObject, KubeObject, Request
from pyinformer.controller import find_condition, set_condition, set_controller_reference
from pyinformer.errors import InvalidObjectError, ModelMismatchError
from pyinformer.operator import Rule

BACKUPS, JOBS = ("acme.io/v1", "backups"), ("batch/v1", "cronjobs")
MESSAGE = "keepWeekly must not exceed keepDaily"
log = logging.getLogger(__name__)


@Rule("self.keepWeekly <= self.keepDaily", message=MESSAGE)
class BackupSpec(pydantic.BaseModel):
    database: Annotated[str, pydantic.Field(min_length=1, max_length=63)]
    schedule: str = "0 3 * * *"
    keep_daily: Annotated[int, pydantic.Field(alias="keepDaily", ge=1)] = 7
    keep_weekly: Annotated[int, pydantic.Field(alias="keepWeekly", ge=0)] = 4

    @pydantic.model_validator(mode="after")
    def check(self) -> "BackupSpec":
        if self.keep_weekly > self.keep_daily:
            raise ValueError(MESSAGE)
        return self


class BackupStatus(pydantic.BaseModel):
    conditions: list[dict[str, Any]] = []


@pyinformer.operator.custom_resource(*BACKUPS)
class Backup(pydantic.BaseModel):
    spec: BackupSpec
    status: BackupStatus = BackupStatus()


app = pyinformer.Operator("backup-operator")


async def unreadable(
    _: Request, backup: KubeObject, cluster: Cluster, error: ModelMismatchError
) -> None:
    await report(cluster, backup, error.reason, is_ready=False)


@app.reconcile(*BACKUPS, model=Backup, owns=[JOBS], on_unreadable=unreadable)
async def reconcile(request: Request, backup: Backup | None, cluster: Cluster) -> None:
    if backup is None:
        return  # the cluster deletes what it owned
    owner = app.object_of(backup)
    job = set_controller_reference(owner, cron_job(request, backup.spec))
    await cluster.apply_if_changed(job, app.lister(*JOBS).get(request.key), force=True)
    await report(cluster, owner, backup.spec.schedule, is_ready=True)


async def report(cluster: Cluster, backup: KubeObject, message: str, *, is_ready: bool) -> None:
    """Set the condition, and record an Event if that changes it."""
    reason = "Scheduled" if is_ready else "Invalid"
    old = conditions_of(backup)
    new = set_condition(old, "Ready", is_ready, reason=reason, message=message)
    if new != old:
        await cluster.status(backup, BackupStatus(conditions=new))
        app.event_recorder().event(
            backup, reason, message, type="Normal" if is_ready else "Warning"
        )


def conditions_of(backup: KubeObject) -> list[JSONObject]:
    return backup.at("status.conditions", list[JSONObject], default=[])


@app.every(600)
async def remind(_: Cluster) -> None:
    backups = app.lister(*BACKUPS).list()
    invalid = [one.key for one in backups if is_invalid(one)]
    if invalid:
        log.warning("%d of %d backups are invalid: %s", len(invalid), len(backups), invalid)


def is_invalid(backup: KubeObject) -> bool:
    try:
        ready = find_condition(conditions_of(backup), "Ready")
    except InvalidObjectError:  # another writer's status; it must not hide the other backups
        return True
    return ready is not None and ready["status"] == "False"


def cron_job(request: Request, spec: BackupSpec) -> JSONObject:
    keep = [f"--daily={spec.keep_daily}", f"--weekly={spec.keep_weekly}"]
    container = {"name": "backup", "image": "backup:1", "args": [spec.database, *keep]}
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": JOBS[0],
        "kind": "CronJob",
        "metadata": {"namespace": request.namespace, "name": request.name},
        "spec": {
            "schedule": spec.schedule,
            "jobTemplate": {"spec": {"template": {"spec": pod}}},
        },
    }


if __name__ == "__main__":
    app.run()
