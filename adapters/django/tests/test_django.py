"""The index class with Django, pgvector's fields, written migrations and a real server.

Django has one configuration per process, so every test runs its project in processes of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.postgres.indexes import OpClass
from django.db.models import F

from devserver import Cluster
from django_pagehop import PagehopExtension, PagehopIndex

SETTINGS = """
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", "NAME": {name!r}, "USER": "postgres",
    "PASSWORD": {password!r}, "HOST": "127.0.0.1", "PORT": {port}}}}}
INSTALLED_APPS = ["django.contrib.postgres", "shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
"""
EXTENSIONS = """
from django.db import migrations
from django_pagehop import PagehopExtension
from pgvector.django import VectorExtension

class Migration(migrations.Migration):
    operations = [VectorExtension(), PagehopExtension()]
"""
MODELS = """
from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models.functions import Cast
from django_pagehop import PagehopIndex
from pgvector.django import HalfVectorField, VectorField

class Item(models.Model):
    embedding = VectorField(dimensions=8)
    tenant = models.BigIntegerField()

    class Meta:
        indexes = [
            PagehopIndex(name="item_embedding", fields=["embedding", "tenant"], opclasses=["vector_l2_ops"]),
            PagehopIndex(
                OpClass(Cast("embedding", HalfVectorField(dimensions=8)), name="halfvec_cosine_ops"), name="item_half"
            ),
        ]
"""
QUERIES = """
import django; django.setup()
import numpy as np
from django.db import connection, transaction
from pgvector.django import CosineDistance, HalfVectorField, L2Distance
from django.db.models.functions import Cast
from shop.models import Item

rows = np.random.default_rng(3).normal(size=(3000, 8)).astype(np.float32)
Item.objects.bulk_create(Item(id=i, embedding=row, tenant=i % 10) for i, row in enumerate(rows))
with connection.cursor() as cursor:
    cursor.execute("ANALYZE shop_item")
exact = np.argsort(((rows - rows[7]) ** 2).sum(axis=1)).tolist()
with transaction.atomic():
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL pagehop.recall = 0.99")
        # Few rows are read and sorted faster than any index finds them.
        cursor.execute("SET LOCAL enable_seqscan = off")
    near = Item.objects.order_by(L2Distance("embedding", rows[7]))
    assert "Index Scan using item_embedding" in near[:5].explain(), near[:5].explain()
    assert [item.id for item in near[:5]] == exact[:5]
    of = near.filter(tenant=7)[:5]
    assert "Index Cond: (tenant = " in of.explain(), of.explain()
    assert [item.id for item in of] == [i for i in exact if i % 10 == 7][:5]
    half = Item.objects.order_by(CosineDistance(Cast("embedding", HalfVectorField(dimensions=8)), rows[7]))[:3]
    assert "Index Scan using item_half" in half.explain(), half.explain()
    assert half[0].id == 7
"""
CONCURRENT = """
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations
from django_pagehop import PagehopIndex

class Migration(migrations.Migration):
    atomic = False
    dependencies = [("shop", "0002_item")]
    operations = [
        AddIndexConcurrently("item", PagehopIndex(name="item_ip", fields=["embedding"], opclasses=["vector_ip_ops"]))
    ]
"""


@pytest.fixture
def manage(cluster: Cluster, database: str, tmp_path: Path) -> Callable[..., str]:
    """Runs Django's commands or a program in a project with one application, `shop`."""
    migrations = tmp_path / "shop" / "migrations"
    migrations.mkdir(parents=True)
    for folder in (migrations.parent, migrations):
        (folder / "__init__.py").touch()
    settings = SETTINGS.format(name=database, password=cluster.password, port=cluster.port)
    (tmp_path / "settings.py").write_text(settings)
    (migrations / "0001_extensions.py").write_text(EXTENSIONS)
    (migrations.parent / "models.py").write_text(MODELS)

    def manage(*arguments: str) -> str:
        path = os.pathsep.join([str(tmp_path), *(folder for folder in sys.path if folder)])
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "settings"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return manage


def test_migrations_make_indexes_that_queries_use(
    manage: Callable[..., str], cluster: Cluster, database: str, tmp_path: Path
) -> None:
    django = ("-m", "django")
    manage(*django, "makemigrations", "shop", "-n", "item")
    written = (tmp_path / "shop/migrations/0002_item.py").read_text()
    assert "django_pagehop.indexes.PagehopIndex(fields=['embedding', 'tenant'], name='item_embedding'" in written
    assert manage(*django, "makemigrations", "--check", "--dry-run") == "No changes detected\n"
    assert 'USING pagehop ("embedding" vector_l2_ops, "tenant"' in manage(*django, "sqlmigrate", "shop", "0002")
    manage(*django, "migrate")
    manage("-c", QUERIES)
    (tmp_path / "shop/migrations/0003_concurrent.py").write_text(CONCURRENT)
    manage(*django, "migrate")
    manage(*django, "migrate", "shop", "0002")
    query = "SELECT relname FROM pg_class JOIN pg_am a ON a.oid = relam WHERE amname = 'pagehop' ORDER BY relname"
    assert cluster.psql(query, database).split() == ["item_embedding", "item_half"]
    manage(*django, "migrate", "shop", "zero")
    assert "pagehop" not in cluster.psql("SELECT string_agg(extname, ' ') FROM pg_extension", database)


def test_what_cannot_be_indexed_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the operator class"):
        PagehopIndex(name="x", fields=["embedding"])
    with pytest.raises(ValueError, match="8 filter columns, 7 are possible"):
        PagehopIndex(name="x", fields=["embedding", *"abcdefgh"], opclasses=["vector_l2_ops"])
    with pytest.raises(ValueError, match="no included columns"):
        PagehopIndex(name="x", fields=["embedding"], opclasses=["vector_l2_ops"], include=["a"])


def test_an_index_is_written_down_as_it_is() -> None:
    made: list[Any] = [
        PagehopIndex(name="x", fields=["embedding", "a"], opclasses=["vector_ip_ops"]),
        PagehopIndex(OpClass(F("embedding"), name="vector_l2_ops"), name="y"),
    ]
    for index in made:
        _, arguments, named = index.deconstruct()
        assert PagehopIndex(*arguments, **named) == index
    assert PagehopExtension().deconstruct() == ("PagehopExtension", (), {})
