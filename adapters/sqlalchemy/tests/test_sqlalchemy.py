"""The index class with SQLAlchemy, pgvector's types, Alembic and a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pgvector
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from pgvector.sqlalchemy import HALFVEC, VECTOR
from sqlalchemy import Engine, MetaData, Select, cast, create_engine, func, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.schema import CreateIndex

from devserver import Cluster
from sqlalchemy_pagehop import PagehopIndex

ROWS = 3000


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "items"
    id: Mapped[int] = mapped_column(primary_key=True)
    embedding = mapped_column(VECTOR(8))
    tenant: Mapped[int]
    __table_args__ = (PagehopIndex("items_embedding", "embedding", "tenant", opclass="vector_l2_ops"),)


@pytest.fixture
def engine(cluster: Cluster, database: str) -> Iterator[Engine]:
    engine = create_engine(cluster.url(database).replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(text("CREATE EXTENSION pagehop CASCADE"))
    yield engine
    engine.dispose()


def vectors() -> Any:
    return np.random.default_rng(3).normal(size=(ROWS, 8)).astype(np.float32)


def fill(engine: Engine) -> None:
    with Session(engine) as session:
        session.add_all(Item(id=i, embedding=row, tenant=i % 10) for i, row in enumerate(vectors()))
        session.commit()
        session.execute(text("ANALYZE items"))
        session.commit()


def plan(session: Session, query: Select[Any]) -> str:
    statement = query.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
    # A sequential scan with a sort is faster than any index for few rows.
    session.execute(text("SET LOCAL enable_seqscan = off"))
    return "\n".join(session.execute(text(f"EXPLAIN {statement}")).scalars())


def test_queries_of_pgvector_use_the_index(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    fill(engine)
    rows = vectors()
    with Session(engine) as session:
        session.execute(text("SET LOCAL pagehop.recall = 0.99"))
        near = select(Item.id).order_by(Item.embedding.l2_distance(rows[7])).limit(5)
        assert "Index Scan using items_embedding" in plan(session, near)
        exact = np.argsort(((rows - rows[7]) ** 2).sum(axis=1))
        assert list(session.scalars(near)) == exact[:5].tolist()
        filtered = near.where(Item.tenant == 7)
        assert "Index Cond: (tenant = 7)" in plan(session, filtered)
        assert list(session.scalars(filtered)) == [i for i in exact.tolist() if i % 10 == 7][:5]


def test_alembic_writes_the_index_and_then_finds_nothing_to_change(engine: Engine) -> None:
    with engine.begin() as connection:
        context = MigrationContext.configure(connection)
        code = render_python_code(produce_migrations(context, Base.metadata).upgrade_ops)
        assert "postgresql_using='pagehop'" in code
        assert "postgresql_ops={'embedding': 'vector_l2_ops'}" in code
        names: dict[str, Any] = {"op": Operations(context), "sa": sqlalchemy, "pgvector": pgvector}
        body = "\n".join(line.removeprefix("    ") for line in code.splitlines())
        exec(body, names)
    with engine.begin() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        kinds = "SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE relname = 'items_embedding'"
        assert connection.execute(text(kinds)).scalar() == "pagehop"


def test_a_labelled_expression_is_indexed(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    fill(engine)
    half = cast(Item.embedding, HALFVEC(8))
    index = PagehopIndex("items_half", half.label("half"), opclass="halfvec_cosine_ops")
    index.create(engine)
    # Other tests create the table without this index.
    Item.__table__.indexes.discard(index)
    with Session(engine) as session:
        query = select(Item.id).order_by(half.cosine_distance(vectors()[7])).limit(3)
        assert "Index Scan using items_half" in plan(session, query)
        assert session.scalars(query).first() == 7
        assert session.execute(select(func.count()).select_from(Item)).scalar() == ROWS


def test_the_statement_is_what_the_manual_shows() -> None:
    table = Item.__table__.to_metadata(MetaData())
    (copied,) = table.indexes
    statement = "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops, tenant)"
    for index in (copied, *(index for index in Item.__table__.indexes)):
        assert str(CreateIndex(index).compile(dialect=postgresql.dialect())) == statement


def test_what_cannot_be_indexed_is_refused() -> None:
    with pytest.raises(ArgumentError, match="must be one of vector_l2_ops"):
        PagehopIndex("x", "embedding", opclass="vector_l1_ops")
    with pytest.raises(ArgumentError, match="8 filter columns, 7 are possible"):
        PagehopIndex("x", "embedding", *"abcdefgh", opclass="vector_l2_ops")
    with pytest.raises(ArgumentError, match="neither unique"):
        PagehopIndex("x", "embedding", opclass="vector_l2_ops", unique=True)
    with pytest.raises(ArgumentError, match="without a name"):
        PagehopIndex("x", func.lower("a") + func.lower("b"), opclass="vector_l2_ops")
