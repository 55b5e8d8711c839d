package org.apache.kafka.controller;

import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Scanner;

import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.message.CreateAclsResponseData;
import org.apache.kafka.common.message.DeleteAclsResponseData;
import org.apache.kafka.common.message.DescribeAclsResponseData;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.metadata.RemoveAccessControlEntryRecord;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.requests.CreateAclsRequest;
import org.apache.kafka.common.requests.DeleteAclsRequest;
import org.apache.kafka.common.requests.DeleteAclsResponse;
import org.apache.kafka.common.requests.DescribeAclsRequest;
import org.apache.kafka.common.requests.DescribeAclsResponse;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAclWithId;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Says what Kafka's StandardAuthorizer and AclControlManager make of ACLs, one line in, one line out.
 *
 * <ul>
 *   <li>{@code new EVERYONE SUPERS}: forget all; allow.everyone.if.no.acl.found, super.users.
 *   <li>{@code create HEX}, {@code delete HEX}, {@code describe HEX}: the body of a request in its
 *       newest version; out comes the response in hex. What is changed is kept.
 *   <li>{@code may OPERATION TYPE NAME PRINCIPAL ADDRESS}: name and address in hex.
 * </ul>
 */
public final class AuthorizerOracle {
    private static final short NEWEST = 3;

    private final AclControlManager manager = new AclControlManager.Builder().build();
    private final StandardAuthorizer authorizer = new StandardAuthorizer();

    private AuthorizerOracle(String everyone, String supers) {
        authorizer.configure(Map.of(
            StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, everyone,
            StandardAuthorizer.SUPER_USERS_CONFIG, supers,
            "node.id", "3000"));
        authorizer.completeInitialLoad();
    }

    public static void main(String[] arguments) throws Exception {
        AuthorizerOracle oracle = null;
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ", -1);
            if (words[0].equals("new")) {
                oracle = new AuthorizerOracle(words[1], words[2]);
                System.out.println("new");
            } else {
                System.out.println(oracle.answer(words));
            }
        }
        System.out.flush();
        System.exit(0);
    }

    private String answer(String[] words) throws Exception {
        ByteBuffer body = words.length == 2 ? ByteBuffer.wrap(bytes(words[1])) : null;
        return switch (words[0]) {
            case "create" -> create(CreateAclsRequest.parse(body, NEWEST));
            case "delete" -> delete(DeleteAclsRequest.parse(body, NEWEST));
            case "describe" -> hex(new DescribeAclsResponseData().setResources(
                DescribeAclsResponse.aclsResources(
                    authorizer.acls(DescribeAclsRequest.parse(body, NEWEST).filter()))));
            default -> may(words);
        };
    }

    private String create(CreateAclsRequest request) {
        List<AclBinding> wanted = new ArrayList<>();
        request.aclCreations().forEach(one -> wanted.add(CreateAclsRequest.aclBinding(one)));
        var result = manager.createAcls(wanted);
        for (ApiMessageAndVersion one : result.records()) {
            var record = (AccessControlEntryRecord) one.message();
            StandardAclWithId acl = StandardAclWithId.fromRecord(record);
            authorizer.addAcl(acl.id(), acl.acl());
        }
        CreateAclsResponseData response = new CreateAclsResponseData();
        for (AclCreateResult one : result.response()) {
            var answer = new CreateAclsResponseData.AclCreationResult();
            one.exception().map(ApiError::fromThrowable).ifPresent(error ->
                answer.setErrorCode(error.error().code()).setErrorMessage(error.message()));
            response.results().add(answer);
        }
        return hex(response);
    }

    private String delete(DeleteAclsRequest request) {
        var result = manager.deleteAcls(request.filters());
        for (ApiMessageAndVersion one : result.records()) {
            var record = (RemoveAccessControlEntryRecord) one.message();
            manager.replay(record);
            authorizer.removeAcl(record.id());
        }
        DeleteAclsResponseData response = new DeleteAclsResponseData();
        result.response().forEach(one ->
            response.filterResults().add(DeleteAclsResponse.filterResult(one)));
        return hex(response);
    }

    private String may(String[] words) throws Exception {
        String name = new String(bytes(words[3]), StandardCharsets.UTF_8);
        String[] principal = words[4].split(":", 2);
        RequestContext context = new RequestContext(
            new RequestHeader(ApiKeys.CREATE_ACLS, NEWEST, "client", 1), "1",
            InetAddress.getByAddress(bytes(words[5])), new KafkaPrincipal(principal[0], principal[1]),
            new ListenerName("CONTROLLER"), SecurityProtocol.SASL_PLAINTEXT, ClientInformation.EMPTY, false);
        Action action = new Action(
            AclOperation.fromCode(Byte.parseByte(words[1])),
            new ResourcePattern(ResourceType.fromCode(Byte.parseByte(words[2])), name, PatternType.LITERAL),
            1, false, false);
        AuthorizationResult result = authorizer.authorize(context, List.of(action)).get(0);
        return String.valueOf(result == AuthorizationResult.ALLOWED);
    }

    private static byte[] bytes(String hex) {
        return HexFormat.of().parseHex(hex);
    }

    private static String hex(ApiMessage response) {
        ByteBuffer buffer = MessageUtil.toByteBuffer(response, NEWEST);
        return HexFormat.of().formatHex(buffer.array(), buffer.position(), buffer.limit());
    }
}
