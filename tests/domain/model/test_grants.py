"""What a token lets its holder do."""

import pytest

from mcp_memory.domain.model.scopes import RIGHTS, Caller, Grant, Right
from mcp_memory.errors import InvalidRequest

GRANT = Grant(agent="coder", person="ann", namespaces=("shop", "base"), right="write")


@pytest.mark.parametrize("right", RIGHTS)
def test_a_right_includes_those_before_it(right: Right) -> None:
    """S4.2: and a refusal names what is missing and what there is."""
    granted = Grant(agent="a", person="a", namespaces=("n",), right=right)
    for wanted in RIGHTS:
        if RIGHTS.index(wanted) <= RIGHTS.index(right):
            granted.require(wanted)
        else:
            with pytest.raises(InvalidRequest, match=f"the right '{wanted}'; your token has '{right}'"):
                granted.require(wanted)


def test_the_first_namespace_is_meant_where_none_is_named() -> None:
    """S4.2."""
    assert (GRANT.namespace(None), GRANT.namespace(""), GRANT.namespace("base")) == ("shop", "shop", "base")
    with pytest.raises(InvalidRequest, match="it holds shop, base"):
        GRANT.namespace("secret")


def test_its_holder_asks_as_its_agent_for_its_person_and_inherits_what_it_holds() -> None:
    """S4.1, S4.2."""
    assert GRANT.caller("shop", "s1", ("base", "secret", "shop"), "client") == Caller(
        namespace="shop",
        agent="coder",
        session_id="s1",
        inherited=("base",),
        client="client",
        person="ann",
        knows=("shop", "base"),
    )
