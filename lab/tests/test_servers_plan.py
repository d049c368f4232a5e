"""Plans of servers: ranges of versions, configurations for each version, and errors."""

from __future__ import annotations

import pytest

from devserver.configuration import Configuration
from devserver.releases import ServerMissingError, release, releases
from pagehop_lab.command import main
from pagehop_lab.plan import PlanError
from pagehop_lab.plan.servers import CaseSpec, expanded
from pagehop_lab.suites.catalog import OF_SERVERS, suite_of
from runs import needed_bytes, read_servers

POSTGRES = '[[server]]\nproduct = "postgres"\nversion = ["12", "16"]\n'


def test_every_major_version_of_postgres_can_be_had() -> None:
    assert [one.name for one in releases("postgres").values() if not one.is_point] == ["9.6", *map(str, range(10, 19))]
    assert all(len(one.sha256) == 64 for one in releases("postgres").values())
    with pytest.raises(
        ServerMissingError, match=r"no postgres 9\.0 available here \(the .* with 9\.6\): there are 9\.6, 10,"
    ):
        release("postgres", "9.0")


def test_mariadb_and_mysql_can_be_had_in_some_versions_and_the_others_are_named() -> None:
    assert list(releases("mariadb")) == ["10.1", "10.2", "10.11", "11.4", "11.8"]
    assert list(releases("mysql")) == ["5.6", "9"]
    found = [*releases("mariadb").values(), *releases("mysql").values()]
    assert all(len(one.sha256) == 64 for one in found if one.registry != "debian")
    assert release("mysql", "9").packages == ("sid", ["mysql-server-core"])
    with pytest.raises(ServerMissingError, match=r"no mysql 8\.4 .*only the newest is kept.* 5\.6, 9; .* by its url"):
        release("mysql", "8.4")


def test_point_releases_have_names_and_are_in_the_order_of_their_versions() -> None:
    known = releases("postgres")
    published = {"12.17", "13.13", "14.10", "14.11", "15.5", "15.6", "16.1", "16.2"}
    assert published <= {name for name, one in known.items() if one.is_point}
    numbers = [tuple(map(int, (one.version or "").split("."))) for one in known.values()]
    assert numbers == sorted(set(numbers))
    assert (known["14"].version, known["9.6"].version, known["11"].version) == ("14.24", "9.6.24", "11.22")
    # The newest point release has two names.
    assert release("postgres", "14.24") == known["14"]
    assert release("postgres", "14.10").artifact.endswith(":14.10.0")
    with pytest.raises(
        ServerMissingError, match=r"no postgres 14\.9 .*servers\.lock.* point releases 12\.17, .*14\.10"
    ):
        release("postgres", "14.9")
    with pytest.raises(ServerMissingError, match=r"no postgres 18\.5 available here \(Maven has no build of it\)"):
        release("postgres", "18.5")
    with pytest.raises(ServerMissingError, match=r"no mysql 8\.0\.36 .*only the newest is kept"):
        release("mysql", "8.0.36")


def test_a_range_of_point_releases_has_all_between_and_of_major_versions_the_newest() -> None:
    assert expanded("postgres", "14.20..14.24") == ["14.20", "14.21", "14.23", "14"]
    assert expanded("postgres", "15.6..16.2") == ["15.6", "15.18", "15", "16.1", "16.2"]
    assert expanded("postgres", "13..14", 2) == ["13.22", "13", "14.23", "14"]
    assert expanded("postgres", "14.10,18", 2)[0] == "14.10"
    assert len(expanded("postgres", "10", 9)) == 1
    plan = read_servers(OLTP.versions_plan("postgres", "13..14", 3, 2), "any")
    assert plan.name == "postgres-13-to-14-oltp-newest-2"
    assert [server.version for server in plan.servers] == ["13.22", "13", "14.23", "14"]
    assert main(["versions", "postgres", "13..14", "--newest", "0"]) == 2


OLTP = OF_SERVERS["oltp"]


def test_versions_are_ranges_and_lists() -> None:
    assert expanded("postgres", "12..14") == ["12", "13", "14"]
    assert expanded("postgres", "9.6..10,18") == ["9.6", "10", "18"]
    # An unknown version is an error only when it is needed, so that the others are measured.
    assert expanded("postgres", "19") == ["19"]
    with pytest.raises(PlanError, match=r"12\.\.19: there is no postgres 19 .* there are 9\.6"):
        expanded("postgres", "12..19")
    with pytest.raises(PlanError, match="12 is older than 14"):
        expanded("postgres", "14..12")


def test_the_command_makes_a_plan_that_can_be_read() -> None:
    text = OLTP.versions_plan("postgres", "12..18", 5)
    plan = read_servers(text, "any")
    assert suite_of(text) is OLTP
    assert plan.name == "postgres-12-to-18-oltp"
    assert [server.name for server in plan.servers] == [f"postgres {major}" for major in range(12, 19)]
    assert (plan.base, plan.load.repeats, len(plan.cases)) == ("postgres 12", 5, 42)
    assert 10**9 < needed_bytes(plan) < 10**10
    with pytest.raises(PlanError, match="'oracle'"):
        OLTP.versions_plan("oracle", "12", 1)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[load]\nsecond = 1", r"load\.second: there is no such key; did you mean seconds\?"),
        ('cases = ["point-qery_range=100"]', r"did you mean point-query_range=100\?"),
        ('[configuration]\ndurability = "maybe"', r"configuration\.durability = 'maybe'"),
        ('[[server]]\nproduct = "postgres"', r"version is missing: there are 9\.6"),
        ('[[server]]\nproduct = "postgres"\nversion = "12"', "postgres 12 is there twice: give one of them a label"),
        ('[[server]]\nproduct = "postgres"\nversion = "12"\nslowed = 0.9', "the most is 0.5"),
        ('base = "postgres 9.6"', "base"),
        ('[[server]]\nproduct = "mysql"\nurl = "mysql://a@b/c"\nversion = "9"', "has its own version"),
    ],
)
def test_a_mistake_is_named_with_its_place(more: str, said: str) -> None:
    text = f'suite = "oltp"\n{more}\n{POSTGRES}' if "[[" not in more else f'suite = "oltp"\n{POSTGRES}\n{more}'
    with pytest.raises(PlanError, match=said):
        read_servers(text, "test")


def test_a_server_may_run_already_and_its_password_is_not_kept() -> None:
    url = "mysql://me:secret@127.0.0.1:3307/lab"
    plan = read_servers(f'suite = "oltp"\n{POSTGRES}[[server]]\nproduct = "mysql"\nurl = "{url}"\n', "any")
    server = plan.servers[-1]
    assert (server.name, server.url) == ("mysql by-url", url)
    identity = CaseSpec(server, plan.cases[0], 0).identity(plan, "here", None)
    assert "secret" not in plan.text + str(identity)
    assert identity["url"] == "mysql://me@127.0.0.1:3307/lab"
    # The data of a server with a URL are not on this disk.
    assert needed_bytes(plan) == needed_bytes(read_servers(f'suite = "oltp"\n{POSTGRES}', "any"))


def test_a_configuration_is_told_to_each_version_by_its_own_names() -> None:
    new, old = (Configuration().settings("postgres", version) for version in ("18.6", "9.6.24"))
    assert new["shared_buffers"] == old["shared_buffers"] == "256MB"
    assert (new.get("jit"), old.get("jit")) == ("off", None)
    safe = Configuration(durability="commit").settings("postgres", "12.22")
    assert (safe["fsync"], safe["synchronous_commit"]) == ("on", "on")
    innodb = Configuration(cache_mib=64, page_bytes=8192, direct_io=True)
    assert innodb.settings("mysql", "5.6.24")["innodb_log_file_size"] == "512M"
    modern = innodb.settings("mysql", "9.7.0")
    assert modern["innodb_redo_log_capacity"] == "1024M"
    assert (modern["innodb_page_size"], modern["innodb_flush_method"]) == ("8192", "O_DIRECT")


@pytest.mark.parametrize(
    ("product", "version", "asked", "said"),
    [
        ("postgres", "15.19", Configuration(direct_io=True), "no direct I/O: 16 is the first"),
        ("postgres", "16.15", Configuration(page_bytes=4096), "compiled with pages of 8192"),
        ("mysql", "5.6.24", Configuration(page_bytes=32768), "no pages of 32768 bytes, but 4096, 8192, 16384"),
    ],
)
def test_what_a_version_cannot_do_is_said(product: str, version: str, asked: Configuration, said: str) -> None:
    with pytest.raises(ServerMissingError, match=said):
        asked.settings(product, version)


def test_suites_have_names_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for letter in "hi":
        with pytest.raises(SystemExit):
            main(["versions", "postgres", "12..18", "--suite", letter])
        assert "invalid choice" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["versions", "--help"])
    assert "--suite {oltp,inserts}" in capsys.readouterr().out
